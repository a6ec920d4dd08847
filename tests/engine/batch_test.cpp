// Sessions that share passes: in one batch, and from several threads.
#include <atomic>
#include <barrier>
#include <limits>
#include <thread>

#include "engine/background_step.h"
#include "engine/sessions.h"

using namespace kimi;
using test::finish;
using test::plain_greedy;
using test::some_tokens;
using test::varied_session;

namespace {

constexpr std::uint32_t kSessions = 16;

// What each of the varied sessions says on its own.
const std::vector<std::vector<std::int32_t>> &replies_alone() {
    static const auto replies = [] {
        const auto engine = test::nano_engine();
        std::vector<std::vector<std::int32_t>> all;
        for (std::uint32_t i = 0; i < kSessions; ++i)
            all.push_back(finish(*varied_session(engine, i)));
        return all;
    }();
    return replies;
}

// Everything that the sessions commit while they are stepped together.
std::vector<std::vector<std::int32_t>> finish_together(Engine &engine,
                                                       std::span<Session *const> batch) {
    std::vector<std::vector<std::int32_t>> replies(batch.size());
    for (bool goes_on = true; goes_on;) {
        engine.step(batch);
        goes_on = false;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const auto tokens = batch[i]->committed();
            replies[i].insert(replies[i].end(), tokens.begin(), tokens.end());
            goes_on |= batch[i]->result().phase != KIMI_PHASE_FINISHED;
        }
    }
    return replies;
}

// NaN in the KV of the session's first page.
void poison(Session &session) {
    const auto kv = session.engine().kv();
    Device &device = session.engine().runner().device();
    const std::vector<std::byte> ones(device.page_bytes(), std::byte{0xff});
    device.write_page(session.kv().pages[0], ones.data());
}

}  // namespace

TEST_CASE("batch: every session says what it says alone, whatever the size of the batch") {
    const auto &alone = replies_alone();
    const auto engine = test::nano_engine();
    for (const std::uint32_t n : {1U, 3U, 16U}) {
        CAPTURE(n);
        std::vector<std::unique_ptr<Session>> sessions;
        std::vector<Session *> batch;
        for (std::uint32_t i = 0; i < n; ++i) {
            sessions.push_back(varied_session(engine, (i + n) % kSessions));
            batch.push_back(sessions.back().get());
        }
        const auto replies = finish_together(*engine, batch);
        for (std::uint32_t i = 0; i < n; ++i) CHECK(replies[i] == alone[(i + n) % kSessions]);
    }
}

TEST_CASE("batch: threads that step at the same time share passes and say what they say alone") {
    const auto &alone = replies_alone();
    const auto engine = test::nano_engine();
    std::vector<std::vector<std::int32_t>> replies(kSessions);
    std::barrier start(kSessions);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < kSessions; ++i)
        threads.emplace_back([&, i] {
            const auto session = varied_session(engine, i);
            start.arrive_and_wait();
            replies[i] = finish(*session);
        });
    for (std::thread &thread : threads) thread.join();
    for (std::uint32_t i = 0; i < kSessions; ++i) CHECK(replies[i] == alone[i]);
    const SchedulerStats stats = engine->stats();
    MESSAGE(stats.steps, " steps in ", stats.passes, " passes");
    CHECK(stats.passes * 4 < stats.steps * 3);
}

TEST_CASE("batch: a batch of more sessions than a pass has rows is served whole") {
    const test::TempDir dir;
    const auto engine = std::make_shared<Engine>(
        dir.write("d.json", "{\"checkpoint\": \"" + test::nano() + "\", \"prefill_chunk\": 8, " +
                                "\"context_limit\": 64, \"kv\": {\"capacity_tokens\": 6400}}"),
        Progress());
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<Session *> batch;
    for (std::uint32_t i = 0; i < 70; ++i) {
        sessions.push_back(std::make_unique<Session>(engine, plain_greedy(3)));
        sessions.back()->append(some_tokens(2, i % 5));
        batch.push_back(sessions.back().get());
    }
    const auto replies = finish_together(*engine, batch);
    for (std::uint32_t i = 5; i < 70; ++i) CHECK(replies[i] == replies[i % 5]);
    CHECK(replies[0].size() == 3);
    CHECK(replies[0] != replies[1]);
}

TEST_CASE("batch: beside a session that decodes, a long prompt has few rows per pass") {
    const auto engine = test::nano_engine();
    Session decoding(engine, plain_greedy(60)), reading(engine, plain_greedy(1));
    decoding.append(some_tokens(20, 1));
    test::step(decoding);
    reading.append(some_tokens(3000, 2));
    Session *batch[] = {&decoding, &reading};
    const auto alone = plain_greedy(60);
    Session same(engine, alone);
    same.append(some_tokens(20, 1));
    const auto expected = finish(same);

    std::vector<std::int32_t> reply(decoding.committed().begin(), decoding.committed().end());
    std::uint64_t n_steps = 0, most = 0;
    while (decoding.result().phase == KIMI_PHASE_DECODE) {
        const std::uint64_t before = reading.result().prompt_done;
        engine->step(batch);
        ++n_steps;
        CHECK(decoding.committed().size() == 1);
        reply.insert(reply.end(), decoding.committed().begin(), decoding.committed().end());
        most = std::max(most, reading.result().prompt_done - before);
    }
    const std::uint64_t rows = reading.result().prompt_done;
    MESSAGE(rows, " prompt rows beside ", n_steps, " decode steps, at most ", most, " in one");
    CHECK(reply == expected);
    CHECK(rows > 0);
    // A row of nano-k2 costs at least a fifth of a pass with one.
    CHECK(most <= 32);
    CHECK(rows <= 8 * n_steps);

    // Nobody decodes any more: full chunks.
    test::step(reading);
    CHECK(reading.result().prompt_done == rows + 256);
}

TEST_CASE("batch: a prompt that is stepped in turn with a session that decodes has full chunks") {
    const auto engine = test::nano_engine();
    Session decoding(engine, plain_greedy(8)), reading(engine, plain_greedy(1));
    decoding.append(some_tokens(20, 1));
    reading.append(some_tokens(700, 2));
    test::step(decoding);
    for (const std::uint64_t done : {256U, 512U}) {
        test::step(decoding);
        test::step(reading);
        CHECK(reading.result().prompt_done == done);
    }
}

TEST_CASE("batch: a prompt of another thread begins with few rows while a session decodes") {
    const auto engine = test::nano_engine();
    Session decoding(engine, plain_greedy(8)), reading(engine, plain_greedy(1));
    decoding.append(some_tokens(20, 1));
    reading.append(some_tokens(700, 2));
    for (int i = 0; i < 4; ++i) test::step(decoding);
    std::thread([&] { test::step(reading); }).join();
    CHECK(reading.result().prompt_done > 0);
    CHECK(reading.result().prompt_done <= 32);
    // Where nobody comes back, the prompt has the engine to itself.
    std::thread([&] {
        for (int i = 0; i < 4; ++i) test::step(reading);
    }).join();
    CHECK(reading.result().prompt_done > 256);
}

TEST_CASE("batch: what ends one session of a pass does not disturb the others") {
    const auto &alone = replies_alone();
    const auto engine = test::nano_engine();
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<Session *> batch;
    for (std::uint32_t i = 0; i < kSessions; ++i) {
        sessions.push_back(varied_session(engine, i));
        batch.push_back(sessions.back().get());
        test::finish_prompt(*batch[i]);
    }
    // The first token of every reply is there.
    std::vector<std::vector<std::int32_t>> begun;
    for (const Session *session : batch) begun.push_back({session->tokens().back()});
    poison(*batch[9]);
    batch[12]->cancel();
    const auto rest = finish_together(*engine, batch);
    CHECK(batch[9]->result().finish_reason == KIMI_FINISH_ERROR);
    CHECK(batch[12]->result().finish_reason == KIMI_FINISH_CANCELLED);
    CHECK(rest[12].empty());
    for (std::uint32_t i = 0; i < kSessions; ++i) {
        if (i == 9 || i == 12) continue;
        CAPTURE(i);
        begun[i].insert(begun[i].end(), rest[i].begin(), rest[i].end());
        CHECK(begun[i] == alone[i]);
    }
}

TEST_CASE("batch: a step in the background that is given up while its pass waits leaves no pass") {
    using namespace std::chrono_literals;
    const auto engine = test::nano_engine();
    Session decoding(engine, test::plain_greedy(5)), given_up(engine, test::plain_greedy(5));
    for (Session *session : {&decoding, &given_up}) session->append(test::some_tokens(3, 1));
    test::finish_prompt(decoding);
    std::atomic<int> n_passes = 0, n_empty = 0;
    StepQueue queue([&](std::vector<Session *> &waiting, bool) {
        ++n_passes;
        n_empty += waiting.empty();
        std::this_thread::sleep_for(200ms);
        waiting.clear();
    });
    Session *sessions[] = {&decoding};
    queue.step(sessions);
    {
        // Its thread leads, and waits up to 100 ms for the one that decodes.
        BackgroundStep step(queue, given_up);
        step.submit();
        std::this_thread::sleep_for(10ms);
    }
    std::this_thread::sleep_for(200ms);
    queue.step(sessions);
    CHECK(n_passes == 2);
    CHECK(n_empty == 0);
}
