// Decode steps that the GPU does by itself, beside those that the host takes part in.
#include "engine/sessions.h"
#include "tests/cuda/engine.h"
#include "tests/cuda/tiny.h"

using namespace kimi;

namespace {

std::shared_ptr<Engine> nano_with_graphs() {
    cudart::start({.n_sms = 4});
    return test::cuda_engine(
        cat(test::cuda_ranks(1),
            R"(, "graphs": {"widths": [8], "sessions": [2]}, "speculation": {"max_nodes": 7})"));
}

// Logprobs are the host's: it takes part.
SessionOptions with_host(SessionOptions options) {
    options.logprobs = 1;
    return options;
}

SessionOptions sampled(std::uint64_t seed, std::uint32_t draft_budget) {
    SessionOptions options = test::plain_greedy(6);
    options.sampling = {
        .seed = seed, .temperature = 0.8F, .top_p = 0.95F, .min_p = 0.01F, .top_k = 40};
    options.draft_budget = draft_budget;
    return options;
}

std::uint64_t launches_of_step(Session &session) {
    const std::uint64_t before = cudart::n_calls("cudaGraphLaunch");
    test::step(session);
    REQUIRE(session.result().status == KIMI_OK);
    return cudart::n_calls("cudaGraphLaunch") - before;
}

// Replies of sessions that are stepped together.
std::vector<std::vector<std::int32_t>> replies(const std::shared_ptr<Engine> &engine,
                                               const std::vector<SessionOptions> &options) {
    std::vector<std::unique_ptr<Session>> sessions;
    std::vector<Session *> waiting;
    for (std::uint32_t i = 0; i < options.size(); ++i) {
        sessions.push_back(std::make_unique<Session>(engine, options[i]));
        sessions[i]->append(test::some_tokens(5 + 3 * i, i));
        waiting.push_back(sessions[i].get());
    }
    std::vector<std::vector<std::int32_t>> out(options.size());
    while (std::any_of(waiting.begin(), waiting.end(), [](const Session *session) {
        return session->result().phase != KIMI_PHASE_FINISHED;
    })) {
        engine->step(waiting);
        for (std::uint32_t i = 0; i < out.size(); ++i) {
            REQUIRE(waiting[i]->result().status == KIMI_OK);
            out[i].insert(out[i].end(), waiting[i]->committed().begin(),
                          waiting[i]->committed().end());
        }
    }
    return out;
}

void check_graphs(const std::shared_ptr<Engine> &engine) {
    SessionOptions options = test::plain_greedy(40);
    options.draft_budget = 7;
    Session alone(engine, options), observed(engine, with_host(options));
    for (Session *session : {&alone, &observed}) {
        session->append(test::some_tokens(9, 3));
        test::finish_prompt(*session);
    }
    for (int i = 0; i < 2; ++i) {
        CHECK(launches_of_step(alone) == 1);
        CHECK(launches_of_step(observed) == 3);  // draft, verification, context
        CHECK(std::ranges::equal(alone.committed(), observed.committed()));
        CHECK(alone.result().draft_nodes == 7);
        CHECK(alone.result().draft_accepted == observed.result().draft_accepted);
    }
    const SessionStats &stats = alone.stats();
    for (const double seconds : {stats.draft, stats.tree, stats.verify, stats.accept})
        CHECK(seconds > 0);
    CHECK(stats.offered == observed.stats().offered);
    CHECK(stats.accepted_at == observed.stats().accepted_at);
}

void check_samples(const std::shared_ptr<Engine> &engine) {
    const std::vector<SessionOptions> options = {sampled(5, KIMI_AUTO), sampled(6, 3)};
    std::vector<SessionOptions> observed;
    for (const SessionOptions &o : options) observed.push_back(with_host(o));
    const auto expected = replies(engine, observed);
    CHECK(replies(engine, options) == expected);
}

// A reply that ends inside a tree goes on from there.
void check_end_inside_tree(const std::shared_ptr<Engine> &engine) {
    SessionOptions options = test::plain_greedy(8);
    options.draft_budget = 7;
    const auto talk = [&](const SessionOptions &o, const std::string &stop, std::uint32_t turns) {
        Session session(engine, o);
        if (!stop.empty()) session.next_rules().stop_strings = {stop};
        std::vector<std::vector<std::int32_t>> out;
        for (std::uint32_t turn = 0; turn < turns; ++turn) {
            session.append(test::some_tokens(6, 8 + turn));
            out.push_back(test::finish(session));
        }
        CHECK(session.stats().accepted > 0);
        return out;
    };
    const auto whole = talk(with_host(options), "", 1);
    // Ends at a token in the middle of the first reply.
    const std::string stop = engine->tokenizer()->decode(std::span(whole[0]).subspan(3, 2));
    REQUIRE(!stop.empty());
    const auto expected = talk(with_host(options), stop, 2);
    CHECK(expected[0].size() < whole[0].size());
    CHECK(talk(options, stop, 2) == expected);
}

}  // namespace

TEST_CASE("cuda: steps that the GPU does by itself give what those with the host give") {
    const auto engine = nano_with_graphs();
    check_graphs(engine);
    check_end_inside_tree(engine);
}

TEST_CASE("cuda: steps that the GPU does by itself draw the tokens that the host draws" *
          doctest::test_suite("slow")) {
    check_samples(nano_with_graphs());
}

TEST_CASE("cuda: logits that are not numbers end the reply, and only that") {
    cudart::start({.n_sms = 4});
    const std::string graphs = R"("graphs": {"widths": [8], "sessions": [1]})";
    const std::vector<std::int32_t> prompt = {1, 2, 3};
    Session sound(test::TinyCuda(graphs).open(), test::plain_greedy(1));
    sound.append(prompt);
    const auto token = static_cast<std::size_t>(test::finish(sound)[0]);
    // The step behind that token reads its embedding.
    const test::TinyCuda tiny(graphs, 1, [&](test::TinyCheckpoint &checkpoint) {
        const auto &table = checkpoint.tensor("language_model.model.embed_tokens.weight");
        std::string bytes = checkpoint.bytes(table);
        const std::size_t row = bytes.size() / table.shape[0];
        bytes[token * row] = '\xc0';
        bytes[token * row + 1] = '\x7f';
        checkpoint.data[table.name] = bytes;
    });
    const auto engine = tiny.open();
    Session session(engine, test::plain_greedy(4));
    for (int reply = 0; reply < 2; ++reply) {
        session.append(prompt);
        test::step(session);
        CHECK(session.result().status == KIMI_OK);
        test::step(session);
        CHECK(session.result().status == KIMI_NUMERIC);
        CHECK(session.result().finish_reason == KIMI_FINISH_ERROR);
        session.truncate(0);
    }
}
