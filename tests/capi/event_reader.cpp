#include "capi/event_reader.h"

#include <algorithm>

#include "text/utf8.h"

namespace client {
namespace {

bool is_piece(uint32_t kind) {
    return kind == KIMI_EVENT_REASONING || kind == KIMI_EVENT_CONTENT ||
           kind == KIMI_EVENT_CALL_ARGUMENTS;
}

std::string cut(std::string &text, const std::string &end) {
    const std::size_t at = std::min(text.find(end), text.size());
    const std::string part = text.substr(0, at);
    text.erase(0, at == text.size() ? at : at + end.size());
    return part;
}

}  // namespace

std::string Seen::text() const {
    std::string out;
    for (const Event &e : events) out += kimi::cat(e.kind, '(', e.text, ',', e.id, ") ");
    return out;
}

kimi_event new_event() {
    kimi_event event;
    kimi_event_init(&event);
    return event;
}

void add(const kimi_event &event, Seen &seen) {
    const auto string = [](const char *text, size_t n) {
        return n == 0 ? "" : std::string(text, n);
    };
    const Event e{event.kind, string(event.text, event.text_len), string(event.id, event.id_len),
                  string(event.name, event.name_len)};
    CHECK(kimi::find_invalid_utf8(e.text) == std::string::npos);
    CHECK(event.finish_reason == KIMI_FINISH_NONE);
    if (is_piece(e.kind)) CHECK(!e.text.empty());
    if (is_piece(e.kind) && !seen.events.empty() && seen.events.back().kind == e.kind)
        seen.events.back().text += e.text;
    else
        seen.events.push_back(e);
}

bool take(kimi_session *session, uint32_t flags, Seen &seen, kimi_status expected) {
    kimi_event event = new_event();
    client::ErrorRecord error;
    const kimi_status status = kimi_session_next_event(session, flags, &event, &error);
    INFO(error.message);
    REQUIRE(status == (event.kind == KIMI_EVENT_FINISHED ? expected : KIMI_OK));
    if (event.kind == KIMI_EVENT_NONE) return false;
    REQUIRE(!seen.ended());
    if (event.kind != KIMI_EVENT_FINISHED) {
        add(event, seen);
    } else {
        CHECK(event.status == expected);
        seen.end = event;
    }
    return true;
}

Seen rest(kimi_session *session, Seen seen, kimi_status expected) {
    while (take(session, 0, seen, expected)) {
    }
    CHECK(seen.ended());
    CHECK(!take(session, 0, seen));
    return seen;
}

std::vector<Event> naive(std::string text, bool reasoning) {
    std::vector<Event> events;
    const auto add = [&](uint32_t kind, const std::string &part) {
        if (!part.empty()) events.push_back({kind, part, "", ""});
    };
    if (reasoning) add(KIMI_EVENT_REASONING, cut(text, "</think>"));
    std::string calls = text;
    add(KIMI_EVENT_CONTENT, cut(calls, "<|tool_calls_section_begin|>"));
    while (calls.starts_with("<|tool_call_begin|>")) {
        cut(calls, "<|tool_call_begin|>");
        const std::string id = cut(calls, "<|tool_call_argument_begin|>");
        const std::string name = id.substr(10, id.find(':') - 10);
        const std::string arguments = cut(calls, "<|tool_call_end|>");
        events.push_back({KIMI_EVENT_CALL_BEGIN, "", id, name});
        events.push_back({KIMI_EVENT_CALL_ARGUMENTS, arguments, id, name});
        events.push_back({KIMI_EVENT_CALL, arguments, id, name});
    }
    return events;
}

std::vector<Event> expected_of(const GoldenReply &golden) {
    std::string reply = golden.reply;
    reply = cut(reply, "<|im_end|>");
    return naive(reply, golden.text.ends_with("<think>"));
}

std::size_t calls_of(const std::vector<Event> &events) {
    return static_cast<std::size_t>(std::count_if(
        events.begin(), events.end(), [](const Event &e) { return e.kind == KIMI_EVENT_CALL; }));
}

kimi_session_options drafting(uint32_t budget, uint32_t mode) {
    kimi_session_options options = client::greedy();
    options.draft_budget = budget;
    options.draft_mode = mode;
    return options;
}

Session copy_of(kimi_session *session, bool saved, kimi_engine *engine) {
    kimi_session *copy = nullptr;
    if (!saved) {
        REQUIRE(kimi_session_fork(session, nullptr, &copy, nullptr) == KIMI_OK);
        return Session(copy);
    }
    size_t n = 0;
    kimi_session_save_buffer(session, nullptr, 0, &n, nullptr);
    std::vector<char> bytes(n);
    REQUIRE(kimi_session_save_buffer(session, bytes.data(), n, &n, nullptr) == KIMI_OK);
    REQUIRE(kimi_session_restore_buffer(engine, bytes.data(), n, 0, &copy, nullptr) == KIMI_OK);
    return Session(copy);
}

void set_stop(kimi_session *session, const char *stop) {
    REQUIRE(kimi_session_set_stop_strings(session, &stop, 1, nullptr) == KIMI_OK);
}

}  // namespace client
