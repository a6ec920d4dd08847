// Reads the events of replies for the tests of them, and tells from a golden what they must be.
#pragma once

#include <string>
#include <vector>

#include "capi/client.h"
#include "capi/fixtures.h"
#include "capi/goldens.h"

namespace client {

using kimi::test::GoldenReply;

struct Event {
    uint32_t kind;
    std::string text, id, name;

    bool operator==(const Event &) const = default;
};

// What a reader has seen: events, text joined by kind, and the end.
struct Seen {
    std::vector<Event> events;
    kimi_event end{};

    bool ended() const { return end.kind == KIMI_EVENT_FINISHED; }
    std::string text() const;
};

kimi_event new_event();

// Adds an event to what was seen, pieces of one kind joined, after checks of its own.
void add(const kimi_event &event, Seen &seen);

// Takes one event; false where there is none. expected: how the reply ends.
bool take(kimi_session *session, uint32_t flags, Seen &seen, kimi_status expected = KIMI_OK);
// Takes events until the reply has ended, which is told once.
Seen rest(kimi_session *session, Seen seen = {}, kimi_status expected = KIMI_OK);

// The events of a reply whose markers are in order, from its text.
std::vector<Event> naive(std::string text, bool reasoning);
std::vector<Event> expected_of(const GoldenReply &golden);
std::size_t calls_of(const std::vector<Event> &events);

kimi_session_options drafting(uint32_t budget, uint32_t mode = KIMI_DRAFT_TREE);
Session copy_of(kimi_session *session, bool saved, kimi_engine *engine);
void set_stop(kimi_session *session, const char *stop);

inline constexpr std::size_t kCallGolden = 0, kContentGolden = 8;

}  // namespace client
