// Passes of more rows than the kernels take at once give, to the bit, what narrow ones give.
#include <functional>

#include "engine/sessions.h"
#include "tests/cuda/tiny.h"

using namespace kimi;

namespace {

constexpr std::uint32_t kReply = 4;

struct Said {
    std::vector<std::int32_t> tokens;
    std::vector<float> logprobs;
    std::uint64_t accepted = 0;

    bool operator==(const Said &) const = default;
};

std::vector<std::int32_t> prompt_of(std::size_t n, std::uint32_t session) {
    return test::tiny_tokens(n + session, session + 1000 * static_cast<std::uint32_t>(n));
}

// Sessions that are stepped together, each with a prompt of its own.
std::vector<Said> replies(const std::shared_ptr<Engine> &engine, std::size_t n_sessions,
                          std::size_t prompt, std::uint32_t draft_budget) {
    SessionOptions options = test::plain_greedy(kReply);
    options.draft_budget = draft_budget;
    options.logprobs = 2;
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<Session *> batch;
    for (std::uint32_t i = 0; i < n_sessions; ++i) {
        sessions.push_back(std::make_unique<Session>(engine, options));
        sessions[i]->append(prompt_of(prompt, i));
        batch.push_back(sessions[i].get());
    }
    std::vector<Said> out(n_sessions);
    while (std::ranges::any_of(batch, [](const Session *session) {
        return session->result().phase != KIMI_PHASE_FINISHED;
    })) {
        engine->step(batch);
        for (std::size_t i = 0; i < n_sessions; ++i) {
            REQUIRE(batch[i]->result().status == KIMI_OK);
            out[i].tokens.insert(out[i].tokens.end(), batch[i]->committed().begin(),
                                 batch[i]->committed().end());
            for (const kimi_logprob &of_token : batch[i]->logprobs())
                out[i].logprobs.push_back(of_token.logprob);
            out[i].accepted = batch[i]->stats().accepted;
        }
    }
    return out;
}

std::shared_ptr<Engine> engine(const std::string &ranks, std::uint32_t chunk,
                               std::uint32_t sessions, const char *graphs = R"({"eager": true})") {
    return test::TinyCuda(cat(ranks, R"(, "prefill_chunk": )", chunk, R"(, "graphs": )", graphs),
                          sessions)
        .open();
}

std::uint32_t most(Engine &engine,
                   const std::function<std::uint32_t(const StepRecord &)> &rows_of) {
    const auto steps = engine.runner().recorded_steps();
    std::uint32_t rows = 0;
    for (const StepRecord &step : steps[0]) rows = std::max(rows, rows_of(step));
    return rows;
}

void check_prompts(const std::string &ranks) {
    CAPTURE(ranks);
    cudart::start({.n_devices = 2, .n_sms = 4});
    const auto wide = engine(ranks, 512, 2), narrow = engine(ranks, 64, 2);
    CHECK(replies(wide, 1, 117, 7) == replies(narrow, 1, 117, 7));
    CHECK(replies(wide, 2, 70, 7) == replies(narrow, 2, 70, 7));
    const auto prompt_rows = [](const StepRecord &step) { return step.prompt_rows; };
    CHECK(most(*wide, prompt_rows) > 128);
    CHECK(most(*narrow, prompt_rows) == 64);
    CHECK(cudart::last_fault() == "");
}

// Trees of seven rows, of which ten do not fit a slice; blocks of eight rows.
void check_decoding(const std::string &ranks) {
    cudart::start({.n_devices = 2, .n_sms = 4});
    constexpr std::uint32_t kSessions = 10;
    const auto together = engine(ranks, 256, kSessions);
    const auto all = replies(together, kSessions, 5, 6);
    CHECK(most(*together, [](const StepRecord &step) { return step.decode_rows; }) ==
          7 * kSessions);
    const auto alone = engine(ranks, 256, 1);
    for (std::uint32_t i = 0; i < kSessions; ++i) {
        CAPTURE(i);
        SessionOptions options = test::plain_greedy(kReply);
        Session session(alone, options);
        session.append(prompt_of(5, i));
        CHECK(test::finish(session) == all[i].tokens);
    }
}

}  // namespace

TEST_CASE("cuda: prompts in wide passes have the bits of those in narrow ones") {
    check_prompts(R"("ranks": 1)");
}

TEST_CASE("cuda: prompts in wide passes with the context split" * doctest::test_suite("slow")) {
    check_prompts(test::context_ranks(2));
}

TEST_CASE("cuda: many sessions decode in one pass what each says alone") {
    check_decoding(R"("ranks": 1)");
}

TEST_CASE("cuda: many sessions decode in one pass with the context split" *
          doctest::test_suite("slow")) {
    check_decoding(test::context_ranks(2));
}

TEST_CASE("cuda: blocks that a bucket of many sessions has no room for are drafted without it") {
    cudart::start({.n_sms = 4});
    const auto graphs = engine(R"("ranks": 1)", 64, 3, R"({"widths": [8, 32], "sessions": [12]})");
    CHECK(replies(graphs, 3, 5, 5) == replies(engine(R"("ranks": 1)", 64, 3), 3, 5, 5));
    CHECK(cudart::last_fault() == "");
}
