// Ranks that fail: the step ends with a status, nothing hangs, and the process goes on.
#include <atomic>
#include <new>
#include <semaphore>

#include "engine/ranks.h"
#include "engine/sessions.h"

using namespace kimi;

namespace {

constexpr const char *kRanks = R"("ranks": 4, "placement": {"attention": "context"})";

// An engine and two sessions that decode, drafted for.
struct Victim {
    std::shared_ptr<Engine> engine;
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<Session *> batch;

    explicit Victim(const Host &host = {}) : engine(test::open_engine(kRanks, host)) {
        engine->runner().team().set_patience(
            {std::chrono::duration<double>(0.3), std::chrono::duration<double>(0.3)});
        for (const std::int32_t token : {300, 400}) add(token);
        engine->step(batch);
        for (const Session *session : batch) REQUIRE(session->result().status == KIMI_OK);
    }
    void add(std::int32_t token) {
        SessionOptions options;
        options.draft_budget = 4;
        options.ignore_stop = true;
        sessions.push_back(std::make_unique<Session>(engine, options));
        sessions.back()->append(std::vector<std::int32_t>(5, token));
        batch.push_back(sessions.back().get());
    }
    // From now on, the n-th exchange of rank 2 does this.
    void fail_at(int n, std::function<void()> failure) const {
        engine->runner().communicator().on_exchange(
            [n, failure, calls = std::make_shared<std::atomic<int>>(0)](std::uint32_t rank) {
                if (rank == 2 && ++*calls == n) failure();
            });
    }
    // The failing step, and that everything after it is refused.
    void check_lost(kimi_status status, std::string_view text) {
        engine->step(batch);
        for (const Session *session : batch) {
            CHECK(session->result().status == status);
            CHECK(session->result().finish_reason == KIMI_FINISH_ERROR);
            CHECK(session->result().error == text);
        }
        add(500);
        batch.back()->append(std::vector<std::int32_t>(5, 1));
        engine->step({&batch.back(), 1});
        CHECK(batch.back()->result().status == KIMI_DEVICE_LOST);
    }
};

// Exchanges of a step: 8 in the drafter's pass, 21 in the target's, and one for the contexts.
constexpr int kInDraft = 3, kInForward = 20, kInExtend = 30;

}  // namespace

TEST_CASE("fault: a rank that throws or runs out of memory ends the step of all sessions in it") {
    for (const int n : {kInDraft, kInForward, kInExtend}) {
        CAPTURE(n);
        Victim thrown, no_memory;
        thrown.fail_at(n, [] { fail(KIMI_IO, "disk gone"); });
        thrown.check_lost(KIMI_IO, "rank 2: disk gone");
        no_memory.fail_at(n, [] { throw std::bad_alloc(); });
        no_memory.check_lost(KIMI_OUT_OF_MEMORY, "rank 2: out of memory");
    }
}

TEST_CASE("fault: a pass that fails counts for what sessions had of it, and is not in the trace") {
    for (const int n : {kInDraft, kInForward, kInExtend}) {
        CAPTURE(n);
        Victim victim;
        const SchedulerStats before = victim.engine->stats();
        victim.fail_at(n, [] { fail(KIMI_IO, "disk gone"); });
        victim.engine->step(victim.batch);
        std::uint64_t reply_tokens = 0;
        for (const auto &session : victim.sessions) {
            const SessionStats &stats = session->stats();
            reply_tokens += stats.reply_tokens;
            CHECK(stats.prompt_tokens == 5);
            CHECK((stats.decode > 0) == (n == kInExtend));
        }
        const SchedulerStats after = victim.engine->stats();
        CHECK(after.committed == reply_tokens);
        CHECK((after.committed > before.committed) == (n == kInExtend));
        CHECK(after.steps == before.steps + (n == kInExtend ? 2 : 0));
        CHECK(after.passes == before.passes);
        for (const auto &records : victim.engine->runner().recorded_steps())
            CHECK(records.size() == after.passes);
    }
}

TEST_CASE("fault: cancel and deadline in the middle of a pass end the reply with it") {
    Victim victim;
    const std::uint64_t before = victim.sessions[0]->n_tokens();
    victim.fail_at(kInForward, [&] { victim.sessions[0]->cancel(); });
    victim.engine->step(victim.batch);
    CHECK(victim.sessions[0]->result().status == KIMI_OK);
    CHECK(victim.sessions[0]->result().finish_reason == KIMI_FINISH_CANCELLED);
    CHECK(victim.sessions[0]->n_tokens() > before);
    CHECK(victim.sessions[1]->result().finish_reason == KIMI_FINISH_NONE);

    SessionOptions options = test::plain_greedy(0);
    options.deadline_ms = 300;
    victim.sessions[0]->set_options(options);
    victim.sessions[0]->append(std::vector<std::int32_t>(5, 300));
    victim.fail_at(10, [] { std::this_thread::sleep_for(std::chrono::milliseconds(310)); });
    victim.engine->runner().team().set_patience({});
    victim.engine->step({victim.batch.data(), 1});
    CHECK(victim.sessions[0]->result().finish_reason == KIMI_FINISH_DEADLINE);
    CHECK(victim.sessions[0]->committed().size() == 1);
}

TEST_CASE("fault: the log tells that an engine failed, and which rank is left behind") {
    std::vector<std::string> lines;
    const Log log(
        [](void *user, std::int32_t level, const char *text) {
            if (level < KIMI_LOG_INFO)
                static_cast<std::vector<std::string> *>(user)->push_back(cat(level, ' ', text));
        },
        &lines);
    std::binary_semaphore go_on(0);
    std::atomic<bool> woke{false};
    {
        Victim victim({log, {}});
        CHECK(lines.empty());
        victim.fail_at(kInForward, [&] {
            go_on.acquire();
            woke = true;
        });
        victim.engine->step(victim.batch);
    }
    CHECK(lines == std::vector<std::string>{
                       "1 the engine failed and does no further work: rank 2 is stuck: the ranks "
                       "did not get on for 0.3 seconds",
                       "2 rank 2 is stuck: it is left behind with its memory"});
    go_on.release();
    while (!woke) std::this_thread::yield();
}

TEST_CASE("fault: a rank that is stuck is given up, and is left behind with its memory") {
    std::binary_semaphore go_on(0);
    std::atomic<bool> woke{false};
    const auto other = test::open_engine(kRanks);
    const auto start = std::chrono::steady_clock::now();
    {
        Victim victim;
        victim.fail_at(kInForward, [&] {
            go_on.acquire();
            woke = true;
        });
        victim.check_lost(KIMI_DEVICE_LOST,
                          "rank 2 is stuck: the ranks did not get on for 0.3 seconds");
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    CHECK(seconds.count() < 60);
    CHECK(!woke);
    // The stuck thread goes on beside another engine, and its exchange is over.
    go_on.release();
    SessionOptions options;
    options.ignore_stop = true;
    Session session(other, options);
    session.append(std::vector<std::int32_t>(5, 300));
    Session *batch[] = {&session};
    while (!woke || session.n_tokens() < 10) other->step(batch);
    CHECK(session.result().status == KIMI_OK);
}
