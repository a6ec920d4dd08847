// Steps in the background, with every request to the system failing in turn; and that steps make no
// requests.
#include <thread>

#include "fault/subject.h"

using namespace kimi::test;

TEST_CASE("fault: steps in the background") {
    const Model model;
    const Balance balance;
    const auto collect = [](kimi_session *session, kimi_error *error) {
        int32_t ready = 0;
        kimi_status status = KIMI_OK;
        while (status == KIMI_OK && ready == 0) {
            kimi_step step;
            kimi_step_init(&step);
            status = kimi_session_poll(session, &step, &ready, error);
            std::this_thread::yield();
        }
        return status;
    };
    {
        // The first one of an engine starts a thread.
        client::Engine engine;
        client::Session session;
        fail_each({"kimi_session_submit",
                   [&] {
                       session.reset();
                       engine = client::load(model.deployment(kOneRank));
                       session = client::open(engine.get(), client::endless());
                       client::append(session.get(), prompt(10));
                   },
                   [&](auto *e) { return kimi_session_submit(session.get(), e); },
                   [&] { CHECK(kimi_session_length(session.get()) == 10); },
                   [&] {
                       CHECK(collect(session.get(), nullptr) == KIMI_OK);
                       CHECK(kimi_session_length(session.get()) == 11);
                   }});
    }
    Subject s(model, kTwoRanks);
    Case poll = s.on_session("kimi_session_poll", collect);
    poll.prepare = [&] {
        s.renew();
        REQUIRE(kimi_session_submit(s.session.get(), nullptr) == KIMI_OK);
    };
    fail_each(poll);
    fail_each(s.on_session("kimi_session_wake_fd", [](auto *session, auto *e) {
        int32_t fd = -1;
        const kimi_status status = kimi_session_wake_fd(session, &fd, e);
        CHECK((fd >= 0) == (status == KIMI_OK));
        return status;
    }));
}

TEST_CASE("fault: steps ask the system for nothing") {
    const Model model;
    for (const char *fields : {kOneRank, kTwoRanks}) {
        const client::Engine engine = client::load(model.deployment(fields));
        kimi_session *sessions[3];
        client::Session owners[3];
        for (int i = 0; i < 3; ++i) {
            kimi_session_options options = client::endless();
            options.logprobs = i == 1 ? KIMI_MAX_LOGPROBS : 0;
            owners[i] = client::open(engine.get(), options);
            sessions[i] = owners[i].get();
            const char *const stops[] = {"\x01\x02\x03"};
            REQUIRE(kimi_session_set_stop_strings(sessions[i], stops, 1, nullptr) == KIMI_OK);
            client::append(sessions[i], prompt(60 + 10 * static_cast<std::size_t>(i)));
        }
        const std::string schema = "{}";
        REQUIRE(kimi_session_set_constraint(sessions[2], KIMI_CONSTRAINT_JSON_SCHEMA, schema.data(),
                                            schema.size(), nullptr) == KIMI_OK);
        const kimi_logit_bias bias = {'x', 1};
        REQUIRE(kimi_session_set_logit_bias(sessions[2], &bias, 1, nullptr) == KIMI_OK);
        client::append(sessions[2], prompt(80));
        for (int i = 0; i < 200; ++i) {
            CAPTURE(i);
            kimi_step steps[3];
            for (kimi_step &step : steps) kimi_step_init(&step);
            const MemoryRequests requests;
            const kimi_status status = i % 4 == 0
                                           ? kimi_decode_step(sessions[i / 4 % 3], steps, nullptr)
                                           : kimi_decode_batch(sessions, 3, steps, nullptr);
            const std::uint64_t n_requests = requests.count();
            if (!kInstrumented) CHECK(n_requests == 0);  // there, the KV memory is checked
            CHECK(status == KIMI_OK);
        }
    }
}
