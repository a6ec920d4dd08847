// Replays serve every pass: sessions that join, leave and draft by other widths, on pages that
// move, say with graphs what each says alone, without graphs and drafts.
#include <map>

#include "engine/sessions.h"
#include "tests/cuda/tiny.h"

using namespace kimi;

namespace {

constexpr std::uint32_t kBudgets[] = {7, 0, 3, 5, 1};
constexpr std::size_t kReplies = 12;

SessionOptions options_of(std::size_t i) {
    SessionOptions options = test::plain_greedy(20 + static_cast<std::uint32_t>(7 * i % 30));
    options.draft_budget = kBudgets[i % std::size(kBudgets)];
    return options;
}

std::vector<std::int32_t> prompt_of(std::size_t i) {
    std::vector<std::int32_t> tokens = test::some_tokens(1 + 11 * i % 70, static_cast<unsigned>(i));
    for (std::int32_t &token : tokens) token %= 256;
    return tokens;
}

std::vector<std::vector<std::int32_t>> expected_replies(const std::shared_ptr<Engine> &eager) {
    std::vector<std::vector<std::int32_t>> replies;
    for (std::size_t i = 0; i < kReplies; ++i) {
        SessionOptions options = options_of(i);
        options.draft_budget = 0;
        Session session(eager, options);
        session.append(prompt_of(i));
        replies.push_back(test::finish(session));
    }
    return replies;
}

struct Talk {
    Talk(const std::shared_ptr<Engine> &engine, std::size_t i) : session(engine, options_of(i)) {
        session.append(prompt_of(i));
    }
    void take(const std::vector<std::int32_t> &expected) {
        REQUIRE(session.result().status == KIMI_OK);
        for (const std::int32_t token : session.committed()) CHECK(token == expected.at(n++));
    }

    Session session;
    std::size_t n = 0;  // tokens of the reply
};

// One to three sessions at a time; after every fifth step pages move. Returns the graphs that ran.
std::uint64_t talk(const std::shared_ptr<Engine> &engine, int n_steps,
                   const std::vector<std::vector<std::int32_t>> &expected) {
    const std::uint64_t before = cudart::n_calls("cudaGraphLaunch");
    std::map<std::size_t, Talk> talks;  // by the number of the reply
    std::size_t n_begun = 0;
    for (int step = 0; step < n_steps; ++step) {
        CAPTURE(step);
        const std::size_t wanted = 1 + static_cast<std::size_t>(step) / 6 % 3;
        if (talks.size() > wanted) talks.erase(talks.begin());  // in the middle of its reply
        if (talks.size() < wanted) {
            talks.try_emplace(n_begun, engine, n_begun % kReplies);
            ++n_begun;
        }
        std::vector<Session *> batch;
        for (auto &[i, talk] : talks) batch.push_back(&talk.session);
        engine->step(batch);
        for (auto &[i, talk] : talks) talk.take(expected[i % kReplies]);
        std::erase_if(talks, [](const auto &talk) {
            return talk.second.session.result().phase == KIMI_PHASE_FINISHED;
        });
        if (step % 5 == 4) engine->kv()->defragment(1);
    }
    CHECK(n_begun > kReplies);
    CHECK(engine->kv()->stats().pages_moved > 0);
    CHECK(cudart::last_fault() == "");
    return cudart::n_calls("cudaGraphLaunch") - before;
}

}  // namespace

TEST_SUITE_BEGIN("slow");

TEST_CASE("cuda: 200 steps with graphs say what each session says alone, without graphs") {
    cudart::start({.n_sms = 4});
    std::vector<std::vector<std::int32_t>> expected;
    {
        const test::TinyCuda eager(R"("graphs": {"eager": true})");
        expected = expected_replies(eager.open());
        REQUIRE(cudart::n_calls("cudaGraphLaunch") == 0);
    }
    const test::TinyCuda graphs(R"("graphs": {"widths": [2, 8, 24], "sessions": [1, 2, 4]})", 4);
    CHECK(talk(graphs.open(), 200, expected) > 200);
}

TEST_SUITE_END();
