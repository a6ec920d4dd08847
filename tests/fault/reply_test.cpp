// A reply's rules and events, with every request to the system failing in turn.
#include "fault/subject.h"

using namespace kimi::test;

TEST_CASE("fault: events") {
    const Model model;
    const Balance balance;
    Subject s(model, kOneRank);
    kimi_event event;
    std::string expected;
    std::uint32_t flags = KIMI_NO_STEP;
    Case take = s.on_session("kimi_session_next_event", [&](auto *session, auto *e) {
        kimi_event_init(&event);
        return kimi_session_next_event(session, flags, &event, e);
    });
    take.done = [&] {
        CHECK(event.kind == KIMI_EVENT_CONTENT);
        const std::string got(event.text, event.text_len);
        if (expected.empty()) expected = got;
        CHECK(got == expected);
        s.check_continues();
    };
    fail_each(take);

    // With steps: those that were run stay, their events come with the next call.
    flags = 0;
    expected.clear();
    s.expected.clear();
    take.prepare = [&] {
        s.renew();
        while (take.call(nullptr) == KIMI_OK && event.kind != KIMI_EVENT_NONE) flags = KIMI_NO_STEP;
        flags = 0;
    };
    take.unchanged = [] {};
    fail_each(take);
}

TEST_CASE("fault: what a reply must keep") {
    const Model model;
    const Balance balance;
    Subject s(model, kOneRank);
    const std::vector<int32_t> more = prompt(10);
    int n = 0;
    std::string expression;
    Case constrain = s.on_session("kimi_session_set_constraint", [&](auto *session, auto *e) {
        return kimi_session_set_constraint(session, KIMI_CONSTRAINT_REGEX, expression.data(),
                                           expression.size(), e);
    });
    constrain.prepare = [&] {
        s.renew();
        expression = "a{9}b{" + std::to_string(++n) + "}";  // the engine has not seen it yet
    };
    constrain.done = [&] {
        client::append(s.session.get(), more);
        const std::vector<int32_t> reply = next_tokens(s.session.get(), 4);
        CHECK(reply == std::vector<int32_t>(reply.size(), 'a'));
    };
    fail_each(constrain);

    const std::vector<kimi_logit_bias> biases = {{'x', 100}, {'y', -100}};
    Case bias = s.on_session("kimi_session_set_logit_bias", [&](auto *session, auto *e) {
        return kimi_session_set_logit_bias(session, biases.data(), biases.size(), e);
    });
    bias.done = [&] {
        client::append(s.session.get(), more);
        const std::vector<int32_t> reply = next_tokens(s.session.get(), 4);
        CHECK(reply == std::vector<int32_t>(reply.size(), 'x'));
    };
    fail_each(bias);

    const char *const strings[] = {"xxxx", "a stop string that is longer than a small one"};
    Case stops = s.on_session("kimi_session_set_stop_strings", [&](auto *session, auto *e) {
        return kimi_session_set_stop_strings(session, strings, 2, e);
    });
    stops.done = [&] {
        REQUIRE(bias.call(nullptr) == KIMI_OK);
        client::append(s.session.get(), more);
        const client::Reply reply = client::finish(s.session.get());
        CHECK(reply.finish == KIMI_FINISH_STOP_STRING);
        CHECK(reply.text.empty());
    };
    fail_each(stops);

    Case append = s.on_session("kimi_session_append", [&](auto *session, auto *e) {
        return kimi_session_append(session, more.data(), more.size(), e);
    });
    append.prepare = [&] {
        s.renew();
        for (const Case *rule : {&constrain, &bias, &stops})
            REQUIRE(rule->call(nullptr) == KIMI_OK);
        s.before = identity(s.session.get());
    };
    fail_each(append);
    Case truncate = s.on_session("kimi_session_truncate", [&](auto *session, auto *e) {
        return kimi_session_truncate(session, 66, e);
    });
    truncate.prepare = [&] {
        append.prepare();
        client::append(s.session.get(), more);
        next_tokens(s.session.get(), 1);
        s.before = identity(s.session.get());
    };
    truncate.done = [&] { CHECK(kimi_session_length(s.session.get()) == 66); };
    fail_each(truncate);
    append.prepare();
    client::append(s.session.get(), more);
    next_tokens(s.session.get(), 1);
    s.saved = save(s.session.get());
    fail_each(s.of_session("kimi_session_restore_buffer with rules", [&](auto **out, auto *e) {
        return kimi_session_restore_buffer(s.engine.get(), s.saved.data(), s.saved.size(), 0, out,
                                           e);
    }));
}
