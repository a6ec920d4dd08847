// nano-k2 on the CUDA backend against the goldens.
#include "capi/goldens.h"
#include "engine/sessions.h"
#include "tests/cuda/engine.h"

using namespace kimi;

namespace {

const test::GoldenReply &golden(const std::string &name) {
    static const std::vector<test::GoldenReply> all = test::golden_replies();
    for (const test::GoldenReply &reply : all)
        if (reply.name == name) return reply;
    throw std::runtime_error("no golden " + name);
}

// The first tokens of a golden's reply, and how many drafted ones were accepted on the way.
std::uint64_t check_reply(const std::shared_ptr<Engine> &engine, const std::string &name,
                          std::uint32_t draft_budget, std::uint32_t n_tokens = 12) {
    CAPTURE(name);
    CAPTURE(draft_budget);
    SessionOptions options;
    options.sampling.temperature = 0;
    options.draft_budget = draft_budget;
    options.max_tokens = n_tokens;
    Session session(engine, options);
    session.append(golden(name).prompt);
    auto expected = golden(name).tokens;
    expected.resize(std::min<std::size_t>(n_tokens, expected.size()));
    CHECK(test::finish(session) == expected);
    return session.stats().accepted;
}

void check_gpus(int n) {
    cudart::start({.n_devices = n, .n_sms = 4});
    const auto engine =
        test::cuda_engine(cat(test::cuda_ranks(n), R"(, "graphs": {"widths": [8], "sessions": [1]},
                                                     "speculation": {"max_nodes": 7})"));
    CHECK(check_reply(engine, "thinking-1", 7) > 3);
    CHECK(cudart::last_fault() == "");
}

}  // namespace

TEST_CASE("cuda: one GPU gives the goldens' tokens, drafting, with graphs") {
    cudart::start({.n_sms = 4});
    const auto engine = test::cuda_engine(
        cat(test::cuda_ranks(1), R"(, "graphs": {"widths": [1, 16], "sessions": [1]},
                                      "speculation": {"max_nodes": 15})"));
    for (const char *name : {"instant-2", "thinking-7"}) CHECK(check_reply(engine, name, 12) > 2);
}

TEST_CASE("cuda: one GPU gives a golden's tokens without graphs, with and without drafts" *
          doctest::test_suite("slow")) {
    cudart::start({.n_sms = 4});
    const auto engine = test::cuda_engine(cat(test::cuda_ranks(1), ", ", test::kEager));
    check_reply(engine, "thinking-1", 0, 6);
    CHECK(check_reply(engine, "thinking-1", 12) > 2);
}

TEST_CASE("cuda: two GPUs give the goldens' tokens, drafting") {
    check_gpus(2);
}

TEST_CASE("cuda: eight GPUs give the goldens' tokens, drafting" * doctest::test_suite("slow")) {
    check_gpus(8);
}

TEST_CASE("cuda: with the context split over two GPUs they give the goldens' tokens, drafting") {
    const auto check = [](const char *graphs, std::uint32_t n_tokens) {
        CAPTURE(graphs);
        cudart::start({.n_devices = 2, .n_sms = 4});
        const auto engine = test::cuda_engine(
            cat(test::context_ranks(2), ", ", graphs, R"(, "speculation": {"max_nodes": 7})"));
        CHECK(check_reply(engine, "thinking-1", 7, n_tokens) > n_tokens / 4);
        CHECK(cudart::last_fault() == "");
    };
    check(R"("graphs": {"eager": true})", 6);
    check(R"("graphs": {"widths": [8], "sessions": [1]})", 12);
}
