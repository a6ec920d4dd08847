// Many threads on one engine, through the C ABI.
#include <atomic>
#include <thread>

#include "capi/client.h"
#include "capi/fixtures.h"
#include "capi/goldens.h"

namespace {

using client::Reply;

}  // namespace

TEST_CASE("concurrency: threads with a session each share passes and get the reference's replies") {
    const client::Engine engine = client::load();
    auto goldens = kimi::test::golden_replies();
    if (kimi::test::kInstrumented) goldens.resize(6);
    std::vector<Reply> replies(goldens.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < goldens.size(); ++i)
        threads.emplace_back([&, i] {
            kimi_session_options options = client::greedy();
            options.draft_budget = i % 2 == 0 ? 0 : KIMI_AUTO;
            const client::Session session = client::open(engine.get(), options);
            client::append(session.get(), goldens[i].prompt);
            replies[i] = client::finish(session.get());
        });
    for (std::thread &thread : threads) thread.join();
    for (std::size_t i = 0; i < goldens.size(); ++i) CHECK(replies[i].tokens == goldens[i].tokens);
    const kimi_engine_statistics stats = client::statistics(engine.get());
    MESSAGE(stats.steps, " steps in ", stats.passes, " passes");
    CHECK(stats.passes < stats.steps);
    CHECK(stats.decode_rows > 0);
    uint64_t prompt_tokens = 0;
    for (const auto &golden : goldens) prompt_tokens += golden.prompt.size();
    CHECK(stats.prompt_rows + stats.prefix_tokens == prompt_tokens);
}

TEST_CASE(
    "concurrency: sessions come, go, fork, are cancelled and looked at beside others' steps") {
    const client::Engine engine = client::load();
    const client::SteadyReply steady(engine.get());
    std::thread churn([&] {
        while (!steady.is_done()) {
            kimi_session_options options = client::greedy();
            options.flags = KIMI_IGNORE_STOP;
            const client::Session session = client::open(engine.get(), options);
            client::append(session.get(), std::vector<int32_t>(30, 300));
            client::step(session.get());
            kimi_session *copy = nullptr;
            REQUIRE(kimi_session_fork(session.get(), nullptr, &copy, nullptr) == KIMI_OK);
            const client::Session fork(copy);
            kimi_session *held = kimi_session_retain(copy);
            std::thread canceller([held] {
                kimi_session_cancel(held);
                kimi_session_destroy(held);
            });
            CHECK(client::finish(copy).finish == KIMI_FINISH_CANCELLED);
            canceller.join();
        }
    });
    while (!steady.is_done()) CHECK(client::statistics(engine.get()).pages > 0);
    churn.join();
}

TEST_CASE("concurrency: the trace has an event for every pass and replaces an older file") {
    const client::Engine engine = client::load();
    const kimi::test::TempDir dir;
    const std::string path = dir.write("trace.json", "old");
    const client::Session session = client::open(engine.get());
    client::append(session.get(), {300, 301, 302});
    client::step(session.get());
    client::step(session.get());
    REQUIRE(kimi_engine_save_trace(engine.get(), path.c_str(), nullptr) == KIMI_OK);
    const kimi::Json trace = kimi::test::read_json(path);
    std::vector<std::string> steps;
    for (const kimi::Json &event : trace.find("traceEvents")->items)
        if (const std::string &name = event.find("name")->text;
            name == "prefill" || name == "decode")
            steps.push_back(name);
    CHECK(steps == std::vector<std::string>{"prefill", "decode"});
    client::ErrorRecord error;
    CHECK(kimi_engine_save_trace(engine.get(), dir.file("none/t.json").c_str(), &error) ==
          KIMI_NOT_FOUND);
    CHECK(std::string(error.message).find("none/t.json") != std::string::npos);
}

TEST_CASE("concurrency: one session of a batch without pages is busy, and the others go on") {
    const client::Engine engine = client::load_with_capacity(192);
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    options.max_tokens = 10;
    const client::Session big = client::open(engine.get(), options);
    const client::Session small = client::open(engine.get(), options);
    client::append(big.get(), std::vector<int32_t>(100, 300));
    client::append(small.get(), std::vector<int32_t>(60, 301));
    std::vector<int32_t> tokens[2];
    for (kimi_session *session : {small.get(), big.get()}) {
        kimi_step first = client::step(session);
        while (first.n_tokens == 0) first = client::step(session);
        tokens[session == big.get()].push_back(first.tokens[0]);
    }
    kimi_session *batch[] = {small.get(), big.get()};
    kimi_step steps[2];
    kimi_step_init(&steps[0]);
    bool was_busy = false;
    for (int i = 0; i < 9; ++i) {
        const kimi_status status = kimi_decode_batch(batch, 2, steps, nullptr);
        CHECK(status == steps[0].status);
        CHECK(steps[1].status == KIMI_OK);
        CHECK(*steps[1].error == '\0');
        CHECK((status == KIMI_OK) == (*steps[0].error == '\0'));
        was_busy |= status == KIMI_BUSY;
        for (int s = 0; s < 2; ++s)
            tokens[s].insert(tokens[s].end(), steps[s].tokens, steps[s].tokens + steps[s].n_tokens);
    }
    CHECK(was_busy);  // at its 65th token
    CHECK(steps[0].finish_reason == KIMI_FINISH_NONE);
    CHECK(steps[1].finish_reason == KIMI_FINISH_LENGTH);

    const client::Engine roomy = client::load();
    for (int s = 0; s < 2; ++s) {
        const client::Session alone = client::open(roomy.get(), options);
        client::append(alone.get(),
                       s == 0 ? std::vector<int32_t>(60, 301) : std::vector<int32_t>(100, 300));
        std::vector<int32_t> expected = client::finish(alone.get()).tokens;
        expected.resize(tokens[s].size());
        CHECK(tokens[s] == expected);
    }
}
