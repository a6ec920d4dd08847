// A reply's events: reasoning, content and tool calls, whoever runs its steps.
#include <poll.h>

#include <algorithm>
#include <random>

#include "capi/event_reader.h"

using namespace client;

namespace {

void append_chat(kimi_session *session, const std::string &json) {
    client::ErrorRecord error;
    const kimi_status status = kimi_session_append_chat(session, json.data(), json.size(), &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
}

const std::string kTools = R"([{"type": "function", "function": {"name": "search_files",
    "description": "Find files whose name contains a word", "parameters": {"type": "object",
    "properties": {"word": {"type": "string"}}, "required": ["word"]}}}])";

}  // namespace

TEST_CASE("events: of every golden reply, as a naive parser of its text finds them") {
    const client::Engine engine = client::load();
    const kimi_session_options modes[] = {drafting(0), drafting(8, KIMI_DRAFT_CHAIN), drafting(16),
                                          drafting(KIMI_AUTO)};
    std::size_t n_calls = 0, i = 0;
    for (const GoldenReply &golden : kimi::test::golden_replies()) {
        CAPTURE(golden.name);
        const auto expected = expected_of(golden);
        ++i;
        for (const auto &options : modes) {
            // Calls in every mode, the others in one.
            if (calls_of(expected) == 0 && &options != &modes[i % std::size(modes)]) continue;
            const client::Session session = client::open(engine.get(), options);
            client::append(session.get(), golden.prompt);
            const Seen seen = rest(session.get());
            INFO(seen.text());
            CHECK(seen.events == expected);
            CHECK(seen.end.calls == calls_of(expected));
            CHECK(seen.end.finish_reason ==
                  (seen.end.calls > 0 ? KIMI_FINISH_TOOL_CALLS : KIMI_FINISH_STOP));
            CHECK(seen.end.prompt_tokens == golden.prompt.size());
            CHECK(seen.end.reply_tokens == golden.tokens.size());
            CHECK(client::step(session.get()).finish_reason == seen.end.finish_reason);
            n_calls += seen.end.calls;
        }
    }
    CHECK(n_calls > 0);
}

TEST_CASE("events: the same whoever runs the steps, in any pattern") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    std::mt19937 random(5);
    for (int round = 0; round < 16; ++round) {
        const GoldenReply &golden = goldens[random() % goldens.size()];
        CAPTURE(golden.name);
        const client::Session session = client::open(engine.get(), drafting(random() % 2 * 16));
        client::append(session.get(), golden.prompt);
        Seen seen;
        uint32_t finish = KIMI_FINISH_NONE;
        const unsigned often = 1 + random() % 4;
        while (finish == KIMI_FINISH_NONE && !seen.ended()) {
            if (random() % often == 0) take(session.get(), random() % 2, seen);
            if (random() % 2 == 0) finish = client::step(session.get()).finish_reason;
        }
        seen = rest(session.get(), seen);
        CHECK(seen.events == expected_of(golden));
    }
}

TEST_CASE("events: of sessions in a batch") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    constexpr std::size_t kSessions = 4;
    std::vector<client::Session> sessions;
    std::vector<kimi_session *> batch;
    std::vector<kimi_step> steps(kSessions);
    std::vector<Seen> seen(kSessions);
    for (std::size_t i = 0; i < kSessions; ++i) {
        sessions.push_back(client::open(engine.get(), drafting(4)));
        batch.push_back(sessions.back().get());
        client::append(batch.back(), goldens[6 + i].prompt);
        kimi_step_init(&steps[i]);
    }
    while (!std::all_of(seen.begin(), seen.end(), [](const Seen &s) { return s.ended(); })) {
        REQUIRE(kimi_decode_batch(batch.data(), kSessions, steps.data(), nullptr) == KIMI_OK);
        for (std::size_t i = 0; i < kSessions; ++i)
            while (take(batch[i], KIMI_NO_STEP, seen[i])) {
            }
    }
    for (std::size_t i = 0; i < kSessions; ++i)
        CHECK(seen[i].events == expected_of(goldens[6 + i]));
}

TEST_CASE("events: of steps in the background") {
    const client::Engine engine = client::load();
    const GoldenReply golden = kimi::test::golden_replies()[kCallGolden];
    const client::Session session = client::open(engine.get(), drafting(8));
    client::append(session.get(), golden.prompt);
    int32_t fd = -1;
    REQUIRE(kimi_session_wake_fd(session.get(), &fd, nullptr) == KIMI_OK);
    Seen seen;
    kimi_step step;
    kimi_step_init(&step);
    while (!seen.ended()) {
        REQUIRE(kimi_session_submit(session.get(), nullptr) == KIMI_OK);
        kimi_event event = new_event();
        CHECK(kimi_session_next_event(session.get(), KIMI_NO_STEP, &event, nullptr) ==
              KIMI_INVALID_ARGUMENT);
        pollfd done{fd, POLLIN, 0};
        REQUIRE(poll(&done, 1, 60000) == 1);
        int32_t ready = 0;
        REQUIRE(kimi_session_poll(session.get(), &step, &ready, nullptr) == KIMI_OK);
        REQUIRE(ready == 1);
        while (take(session.get(), KIMI_NO_STEP, seen)) {
        }
    }
    CHECK(seen.events == expected_of(golden));
}

TEST_CASE("events: copies go on with the next one, wherever they are made") {
    const client::Engine engine = client::load(), other = client::load();
    const auto goldens = kimi::test::golden_replies();
    for (const std::size_t which : {kCallGolden, kContentGolden}) {
        const client::Session session = client::open(engine.get(), drafting(8));
        if (which == kContentGolden) set_stop(session.get(), "hidden states");
        client::append(session.get(), goldens[which].prompt);
        const client::Session whole_copy = copy_of(session.get(), false, nullptr);
        const Seen whole = rest(whole_copy.get());
        Seen seen;
        for (bool saved = false; take(session.get(), 0, seen); saved = !saved) {
            const client::Session copy = copy_of(session.get(), saved, other.get());
            Seen copied = seen;
            while (take(copy.get(), 0, copied)) {
            }
            CHECK(copied.events == whole.events);
            CHECK(copied.end.finish_reason == whole.end.finish_reason);
            CHECK(copied.end.calls == whole.end.calls);
        }
        CHECK(seen.events == whole.events);
    }
}

TEST_CASE("events: question, call, result, answer") {
    const client::Engine engine = client::load();
    for (const bool constrained : {false, true}) {
        const client::Session session = client::open(engine.get(), drafting(8));
        if (constrained)
            REQUIRE(kimi_session_set_constraint(session.get(), KIMI_CONSTRAINT_TOOLS, kTools.data(),
                                                kTools.size(), nullptr) == KIMI_OK);
        std::string messages = R"({"role": "user", "content": "Find files about lantern."})";
        const auto ask = [&] {
            append_chat(session.get(),
                        R"({"messages": [)" + messages + R"(], "tools": )" + kTools + "}");
            return rest(session.get());
        };
        const Seen question = ask();
        INFO(question.text());
        REQUIRE(question.end.finish_reason == KIMI_FINISH_TOOL_CALLS);
        REQUIRE(question.events.size() == 4);
        const Event call = question.events[3];
        CHECK(call == Event{KIMI_EVENT_CALL, R"({"word": "lantern"})", "functions.search_files:0",
                            "search_files"});
        messages += R"(, {"role": "assistant", "content": "", "reasoning_content": ")" +
                    question.events[0].text + R"(", "tool_calls": [{"id": ")" + call.id +
                    R"(", "type": "function", "function": {"name": ")" + call.name +
                    R"(", "arguments": "{\"word\": \"lantern\"}"}}]}, {"role": "tool",
                    "tool_call_id": ")" +
                    call.id + R"(", "content": "[\"lantern.txt\"]"})";
        const uint64_t before = kimi_session_length(session.get());
        append_chat(session.get(),
                    R"({"messages": [)" + messages + R"(], "tools": )" + kTools + "}");
        // The call's tokens are those that the model wrote: nothing is processed again.
        CHECK(client::step(session.get()).prompt_done >= before);
        const Seen answer = rest(session.get());
        INFO(answer.text());
        CHECK(answer.end.finish_reason == KIMI_FINISH_STOP);
        REQUIRE(!answer.events.empty());
        CHECK(answer.events.back().kind == KIMI_EVENT_CONTENT);
        CHECK(answer.events.back().text.starts_with("I found "));
    }
}

TEST_CASE("events: bad arguments are named") {
    const client::Engine engine = client::load();
    const client::Session session = client::open(engine.get());
    kimi_event event = new_event();
    client::ErrorRecord error;
    const auto refused = [&](kimi_status status, const std::string &text) {
        CHECK(status == KIMI_INVALID_ARGUMENT);
        CHECK(kimi::test::contains(error.message, text));
    };
    refused(kimi_session_next_event(nullptr, 0, &event, &error), "session is NULL");
    refused(kimi_session_next_event(session.get(), 0, nullptr, &error), "out is NULL");
    refused(kimi_session_next_event(session.get(), 2, &event, &error), "flags is 2");
    event.struct_size = 8;
    refused(kimi_session_next_event(session.get(), 0, &event, &error), "out.struct_size is 8");
}
