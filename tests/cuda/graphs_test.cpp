// Replays serve every pass: sessions that join, leave and draft by other widths, on pages that
// move, say with graphs what each says alone, without graphs and drafts.
#include <cstring>
#include <map>

#include "base/bf16.h"
#include "capi/goldens.h"
#include "engine/sessions.h"
#include "tests/cuda/tiny.h"

using namespace kimi;

namespace {

// A reply, and what it must be.
struct ExpectedReply {
    std::vector<std::int32_t> prompt, expected;
    SessionOptions options;
};

constexpr std::uint32_t kBudgets[] = {7, 0, 3, 5, 7};

// Changes a tensor's values, row by row.
template <typename F>
void change_rows(test::TinyCheckpoint &checkpoint, const std::string &name, F &&change) {
    const synth::TensorSpec &tensor = checkpoint.tensor(name);
    std::string bytes = checkpoint.bytes(tensor);
    std::vector<bf16> values(bytes.size() / sizeof(bf16));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    const std::size_t width = tensor.shape[1];
    for (std::size_t row = 0; row < tensor.shape[0]; ++row)
        for (std::size_t i = 0; i < width; ++i) {
            bf16 &value = values[row * width + i];
            value = to_bf16(change(row, to_float(value)));
        }
    std::memcpy(bytes.data(), values.data(), bytes.size());
    checkpoint.data[name] = bytes;
}

// A drafter has the target's embedding and head. All embeddings get a part in common, which all
// hidden states of both keep, and the rows of two tokens in the head look for it. So replies and
// drafts consist of these two; which of them is next depends on the context, as attention says
// more than in other random models; and accepted paths lie anywhere in the drafted trees.
void let_drafter_guess(test::TinyCheckpoint &checkpoint) {
    constexpr float kLook[] = {0.4F, 0.35F};  // the target likes both equally often
    constexpr float kScale = 0.4F;            // the drafter's probabilities are close
    change_rows(checkpoint, "language_model.model.embed_tokens.weight",
                [](std::size_t, float value) { return value + 1; });
    change_rows(checkpoint, "language_model.lm_head.weight", [&](std::size_t row, float value) {
        return kScale * (row < std::size(kLook) ? value + kLook[row] : value);
    });
    for (const char *layer : {"0", "1"})
        change_rows(checkpoint,
                    cat("language_model.model.layers.", layer, ".self_attn.o_proj.weight"),
                    [](std::size_t, float value) { return 4 * value; });
}

std::vector<std::int32_t> prompt_of_reply(std::size_t i) {
    return test::tiny_tokens(1 + 11 * i % 70, static_cast<unsigned>(i));
}

// What sessions say alone, without drafts.
std::vector<ExpectedReply> plain_replies(const std::shared_ptr<Engine> &engine) {
    std::vector<ExpectedReply> replies(8);
    for (std::size_t i = 0; i < replies.size(); ++i) {
        ExpectedReply &reply = replies[i];
        reply.prompt = prompt_of_reply(i);
        reply.options = test::plain_greedy(20 + static_cast<std::uint32_t>(7 * i % 30));
        Session session(engine, reply.options);
        session.append(reply.prompt);
        reply.expected = test::finish(session);
        reply.options.draft_budget = kBudgets[i % std::size(kBudgets)];
    }
    return replies;
}

struct Talk {
    Talk(const std::shared_ptr<Engine> &engine, const ExpectedReply &to)
        : session(engine, to.options) {
        session.append(to.prompt);
    }
    void take(const std::vector<std::int32_t> &expected) {
        REQUIRE(session.result().status == KIMI_OK);
        for (const std::int32_t token : session.committed()) CHECK(token == expected.at(n++));
        if (session.result().phase == KIMI_PHASE_FINISHED) CHECK(n == expected.size());
    }

    Session session;
    std::size_t n = 0;  // tokens of the reply
};

struct Seen {
    std::uint64_t graphs = 0;         // that ran
    double drafts = 0, accepted = 0;  // of sessions: steps with a draft, tokens in them
};

// Steps of one to three sessions at a time; after every fifth step pages move.
Seen talk(const std::shared_ptr<Engine> &engine, int n_steps,
          const std::vector<ExpectedReply> &replies) {
    const std::uint64_t before = cudart::n_calls("cudaGraphLaunch");
    const std::uint64_t made = cudart::n_calls("cudaGraphInstantiate");
    Seen seen;
    std::map<std::size_t, Talk> talks;  // by the number of the reply
    std::size_t n_begun = 0;
    for (int step = 0; step < n_steps; ++step) {
        CAPTURE(step);
        const std::size_t wanted = 1 + static_cast<std::size_t>(step) / 6 % 3;
        if (talks.size() > wanted) talks.erase(talks.begin());  // in the middle of its reply
        if (talks.size() < wanted) {
            talks.try_emplace(n_begun, engine, replies[n_begun % replies.size()]);
            ++n_begun;
        }
        std::vector<Session *> batch;
        for (auto &[i, talk] : talks) batch.push_back(&talk.session);
        engine->step(batch);
        for (auto &[i, talk] : talks) {
            talk.take(replies[i % replies.size()].expected);
            seen.drafts += talk.session.result().draft_nodes > 0;
            seen.accepted += talk.session.result().draft_accepted;
        }
        std::erase_if(talks, [](const auto &talk) {
            return talk.second.session.result().phase == KIMI_PHASE_FINISHED;
        });
        if (step % 5 == 4) engine->kv()->defragment(1);
    }
    CHECK(n_begun > replies.size());
    CHECK(engine->kv()->stats().pages_moved > 0);
    CHECK(cudart::last_fault() == "");
    CHECK(cudart::n_calls("cudaGraphInstantiate") == made);  // when the engine was created
    seen.graphs = cudart::n_calls("cudaGraphLaunch") - before;
    return seen;
}

}  // namespace

TEST_CASE("cuda: every graph is made with the engine, also for one session's first draft") {
    cudart::start({.n_sms = 4});
    const auto engine =
        test::TinyCuda(R"("graphs": {"widths": [8], "sessions": [1, 4]})", 4).open();
    const std::uint64_t made = cudart::n_calls("cudaGraphInstantiate");
    for (const std::size_t n : {1U, 3U}) {
        CAPTURE(n);
        std::vector<std::unique_ptr<Session>> sessions;
        std::vector<Session *> batch;
        for (std::size_t i = 0; i < n; ++i) {
            SessionOptions options = test::plain_greedy(6);
            options.draft_budget = 1;
            sessions.push_back(std::make_unique<Session>(engine, options));
            sessions[i]->append(prompt_of_reply(i));
            batch.push_back(sessions[i].get());
        }
        for (int step = 0; step < 3; ++step) engine->step(batch);
        for (const Session *session : batch) CHECK(session->result().draft_nodes == 1);
    }
    CHECK(cudart::n_calls("cudaGraphInstantiate") == made);
}

TEST_SUITE_BEGIN("slow");

TEST_CASE("cuda: 200 steps with graphs say what each session says alone, without graphs") {
    cudart::start({.n_sms = 4});
    std::vector<ExpectedReply> replies;
    {
        const test::TinyCuda eager(R"("graphs": {"eager": true})", 1, let_drafter_guess);
        replies = plain_replies(eager.open());
        REQUIRE(cudart::n_calls("cudaGraphLaunch") == 0);
    }
    const test::TinyCuda graphs(R"("graphs": {"widths": [2, 8, 24], "sessions": [1, 2, 4]})", 4,
                                let_drafter_guess);
    const Seen seen = talk(graphs.open(), 200, replies);
    CHECK(seen.graphs > 200);
    MESSAGE(seen.accepted, " tokens accepted in ", seen.drafts, " drafts");
    CHECK(seen.accepted > seen.drafts);
}

TEST_CASE("cuda: sessions of nano-k2 that join and leave say with graphs what the reference says") {
    cudart::start({.n_sms = 4});
    std::vector<ExpectedReply> replies;
    for (const test::GoldenReply &golden : test::golden_replies()) {
        if (golden.prompt.size() > 30) continue;
        ExpectedReply reply{golden.prompt, golden.tokens, test::plain_greedy(0)};
        reply.options.ignore_stop = false;
        reply.options.draft_budget = kBudgets[replies.size() % std::size(kBudgets)];
        replies.push_back(reply);
    }
    REQUIRE(replies.size() > 3);
    const auto engine = test::cuda_engine(cat(
        test::cuda_ranks(1),
        R"(, "graphs": {"widths": [8, 24], "sessions": [4]}, "speculation": {"max_nodes": 7})"));
    const Seen seen = talk(engine, 24, replies);
    MESSAGE(seen.accepted, " tokens accepted in ", seen.drafts, " drafts");
    CHECK(seen.accepted > 2 * seen.drafts);
}

TEST_SUITE_END();
