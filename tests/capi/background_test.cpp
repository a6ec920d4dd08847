// Steps in the background: what an event loop does with sessions.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "capi/client.h"
#include "capi/fixtures.h"
#include "capi/goldens.h"
#include "check.h"

namespace {

using client::Reply;

int descriptor(kimi_session *session) {
    int32_t fd = -1;
    REQUIRE(kimi_session_wake_fd(session, &fd, nullptr) == KIMI_OK);
    return fd;
}

bool is_readable(int fd, int timeout_ms = 0) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, timeout_ms) == 1;
}

void submit(kimi_session *session) {
    client::ErrorRecord error;
    const kimi_status status = kimi_session_submit(session, &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
}

// The submitted step, if it is ready.
bool collect(kimi_session *session, kimi_step &step) {
    kimi_step_init(&step);
    int32_t ready = -1;
    client::ErrorRecord error;
    const kimi_status status = kimi_session_poll(session, &step, &ready, &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
    return ready == 1;
}

void add(Reply &reply, const kimi_step &step) {
    reply.tokens.insert(reply.tokens.end(), step.tokens, step.tokens + step.n_tokens);
    reply.text.append(step.text, step.text_len);
    reply.finish = step.finish_reason;
}

kimi_step wait(kimi_session *session) {
    kimi_step step;
    REQUIRE(is_readable(descriptor(session), 60'000));
    REQUIRE(collect(session, step));
    CHECK(!is_readable(descriptor(session)));
    return step;
}

int n_threads() {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                          std::filesystem::directory_iterator()));
}

}  // namespace

TEST_CASE(
    "background: one thread drives all sessions, in common passes, to the reference's replies") {
    const client::Engine engine = client::load();
    auto goldens = kimi::test::golden_replies();
    if (kimi::test::kInstrumented) goldens.resize(4);
    std::vector<client::Session> sessions;
    std::vector<Reply> replies(goldens.size());
    std::vector<pollfd> events;
    for (const auto &golden : goldens) {
        sessions.push_back(client::open(engine.get()));
        client::append(sessions.back().get(), golden.prompt);
        events.push_back({descriptor(sessions.back().get()), POLLIN, 0});
        submit(sessions.back().get());
    }
    for (std::size_t n_open = sessions.size(); n_open > 0;) {
        REQUIRE(::poll(events.data(), events.size(), 60'000) > 0);
        for (std::size_t i = 0; i < sessions.size(); ++i) {
            if ((events[i].revents & POLLIN) == 0) continue;
            kimi_step step;
            REQUIRE(collect(sessions[i].get(), step));
            add(replies[i], step);
            if (step.finish_reason == KIMI_FINISH_NONE)
                submit(sessions[i].get());
            else
                --n_open;
        }
    }
    for (std::size_t i = 0; i < goldens.size(); ++i) CHECK(replies[i].tokens == goldens[i].tokens);
    const kimi_engine_statistics stats = client::statistics(engine.get());
    MESSAGE(stats.steps, " steps in ", stats.passes, " passes");
    CHECK(stats.passes < stats.steps);
}

TEST_CASE("background: events are taken between submitted steps") {
    const client::Engine engine = client::load();
    const auto golden = kimi::test::golden_replies()[0];
    // The pieces of a reply, joined by kind.
    const auto events = [&](bool in_background) {
        const client::Session session = client::open(engine.get());
        client::append(session.get(), golden.prompt);
        std::map<uint32_t, std::string> pieces;
        while (pieces.count(KIMI_EVENT_FINISHED) == 0) {
            if (in_background) {
                submit(session.get());
                wait(session.get());
            }
            kimi_event event;
            kimi_event_init(&event);
            do {
                REQUIRE(kimi_session_next_event(session.get(), in_background ? KIMI_NO_STEP : 0,
                                                &event, nullptr) == KIMI_OK);
                if (event.kind != KIMI_EVENT_NONE)
                    pieces[event.kind].append(event.text, event.text_len);
            } while (event.kind != KIMI_EVENT_NONE && event.kind != KIMI_EVENT_FINISHED);
        }
        return pieces;
    };
    const auto pieces = events(true);
    CHECK(pieces.size() > 1);  // not the end alone
    CHECK(pieces == events(false));
}

TEST_CASE("background: submitted steps join those that threads wait for") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    std::atomic<int> n_equal{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 6; ++i)
        threads.emplace_back([&, i] {
            const client::Session session = client::open(engine.get());
            client::append(session.get(), goldens[i].prompt);
            Reply reply;
            while (reply.finish == KIMI_FINISH_NONE) {
                if (i % 2 == 0) {
                    add(reply, client::step(session.get()));
                } else {
                    submit(session.get());
                    add(reply, wait(session.get()));
                }
            }
            n_equal += reply.tokens == goldens[i].tokens;
        });
    for (std::thread &thread : threads) thread.join();
    CHECK(n_equal == 6);
}

TEST_CASE("background: until a step is collected, other calls are refused and the length stands") {
    const client::Engine engine = client::load();
    const client::Session held = client::open(engine.get(), client::endless());
    kimi_session *session = held.get();
    kimi_step step;
    kimi_step_init(&step);
    int32_t ready = 7;
    client::ErrorRecord error;
    CHECK(kimi_session_poll(session, &step, &ready, &error) == KIMI_INVALID_ARGUMENT);
    CHECK(std::string(error.message) == "session has no submitted step");
    CHECK(ready == 7);
    client::append(session, {300, 301, 302});
    submit(session);
    const int32_t token = 5;
    const auto refused = [&](kimi_status status) {
        CHECK(status == KIMI_INVALID_ARGUMENT);
        CHECK(kimi::test::contains(error.message, "has a submitted step"));
    };
    kimi_session *copy = nullptr;
    refused(kimi_session_submit(session, &error));
    refused(kimi_decode_step(session, &step, &error));
    refused(kimi_decode_batch(&session, 1, &step, &error));
    refused(kimi_session_append(session, &token, 1, &error));
    refused(kimi_session_truncate(session, 0, &error));
    refused(kimi_session_fork(session, nullptr, &copy, &error));
    CHECK(kimi_session_length(session) == 3);
    REQUIRE(is_readable(descriptor(session), 60'000));
    CHECK(kimi_session_length(session) == 3);
    CHECK(wait(session).n_tokens == 1);
    CHECK(kimi_session_length(session) == 4);
    CHECK(client::step(session).n_tokens >= 1);
    // A finished reply is told again at once.
    kimi_session_cancel(session);
    submit(session);
    CHECK(wait(session).finish_reason == KIMI_FINISH_CANCELLED);
    submit(session);
    CHECK(wait(session).finish_reason == KIMI_FINISH_CANCELLED);
}

TEST_CASE("background: a descriptor that is asked for late knows of the step that is done") {
    const client::Engine engine = client::load();
    const client::Session session = client::open(engine.get(), client::endless());
    client::append(session.get(), {300});
    submit(session.get());
    kimi_step step;
    while (client::statistics(engine.get()).steps == 0) std::this_thread::yield();
    const int fd = descriptor(session.get());
    REQUIRE(is_readable(fd, 60'000));
    CHECK(descriptor(session.get()) == fd);
    CHECK(collect(session.get(), step));
    CHECK(step.n_tokens == 1);
}

TEST_CASE("background: an error and the lack of pages come with the step") {
    const client::Engine engine = client::load_with_capacity(64);
    const client::Session first = client::open(engine.get(), client::endless());
    const client::Session second = client::open(engine.get(), client::endless());
    client::append(first.get(), {300});
    client::append(second.get(), {300});
    CHECK(client::step(first.get()).n_tokens == 1);
    submit(second.get());
    REQUIRE(is_readable(descriptor(second.get()), 60'000));
    kimi_step step;
    kimi_step_init(&step);
    int32_t ready = 0;
    client::ErrorRecord error;
    CHECK(kimi_session_poll(second.get(), &step, &ready, &error) == KIMI_BUSY);
    CHECK(ready == 1);
    CHECK(step.status == KIMI_BUSY);
    CHECK(std::string(step.error) == error.message);
    CHECK(!is_readable(descriptor(second.get())));
}

TEST_CASE("background: cancel ends the step that is being computed, and wakes") {
    const client::Engine engine = client::load();
    const client::Session session = client::open(engine.get(), client::endless());
    client::append(session.get(), std::vector<int32_t>(600, 300));
    submit(session.get());
    std::thread([held = kimi_session_retain(session.get())] {
        kimi_session_cancel(held);
        kimi_session_destroy(held);
    }).join();
    kimi_step step = wait(session.get());
    if (step.finish_reason == KIMI_FINISH_NONE) {  // it was over when the cancel came
        submit(session.get());
        step = wait(session.get());
    }
    CHECK(step.finish_reason == KIMI_FINISH_CANCELLED);
    CHECK(step.prompt_done < step.prompt_total);
}

TEST_CASE("background: sessions are destroyed in every state of their steps") {
    const client::Engine engine = client::load();
    const client::SteadyReply steady(engine.get());
    for (int i = 0; i < 40 || !steady.is_done(); ++i) {
        const client::Session session = client::open(engine.get(), client::endless());
        client::append(session.get(), {300, 301});
        if (i % 2 == 0) descriptor(session.get());
        submit(session.get());
        kimi_step step;
        if (i % 4 == 1) std::this_thread::yield();
        if (i % 4 == 2) REQUIRE(is_readable(descriptor(session.get()), 60'000));
        if (i % 4 == 3) collect(session.get(), step);
    }
}

TEST_CASE("background: cancel races destroy, by holders of their own") {
    const client::Engine engine = client::load();
    const int n = kimi::test::kInstrumented ? 200 : 2000;
    for (int i = 0; i < n; ++i) {
        kimi_session *session = client::open(engine.get(), client::endless()).release();
        client::append(session, {300});
        kimi_session *const held = kimi_session_retain(session);
        if (i % 8 == 0) submit(session);
        std::atomic<bool> go{false};
        std::thread other([&] {
            while (!go) {
            }
            kimi_session_cancel(held);
            kimi_session_destroy(held);
        });
        go = true;
        kimi_session_destroy(session);
        other.join();
    }
    CHECK(client::statistics(engine.get()).sessions == 0);
}

TEST_CASE("background: the engine's thread begins with the first submit and ends with the engine") {
    const int before = n_threads();
    client::Engine engine = client::load();
    const client::Session session = client::open(engine.get(), client::endless());
    const int loaded = n_threads();
    client::append(session.get(), {300});
    for (int i = 0; i < 3; ++i) {
        submit(session.get());
        wait(session.get());
        CHECK(n_threads() == loaded + 1);
    }
    engine.reset();
    submit(session.get());
    CHECK(wait(session.get()).n_tokens > 0);  // a session keeps its engine
    const_cast<client::Session &>(session).reset();
    CHECK(n_threads() == before);
}
