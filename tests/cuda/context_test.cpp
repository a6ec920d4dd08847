// The KV in shards: each GPU has a part of every page, and all attend with the heads of all.
#include "capi/goldens.h"
#include "engine/estimate.h"
#include "engine/session_file.h"
#include "engine/sessions.h"
#include "model/harness.h"
#include "tests/cuda/tiny.h"

using namespace kimi;
using test::Harness;

namespace {

// One sequence on a model below the engine.
struct Sequence {
    Runner runner;
    std::vector<std::uint32_t> pages;

    explicit Sequence(const std::string &deployment)
        : runner(read_deployment(deployment), Progress()), pages(runner.kv().n_pages) {
        // Not in order, so that a mistake in the block table shows.
        std::iota(pages.rbegin(), pages.rend(), 0U);
    }
    std::vector<std::vector<float>> run(const Harness::Rows &rows, std::uint32_t n_logits = 1) {
        return Harness::run_on(runner, rows, pages, n_logits);
    }
    // Logits after the last of the tokens, which come one by one behind `first` others.
    std::vector<float> decode(const std::vector<std::int32_t> &tokens, std::uint32_t first) {
        std::vector<float> last;
        for (std::uint32_t i = 0; i < tokens.size(); ++i)
            last = run(Harness::Rows::prompt({&tokens[i], 1}, first + i))[0];
        return last;
    }
};

constexpr std::int32_t kNodeToken[] = {7, 11, 12, 21, 22, 111, 112, 31, 41, 121};
constexpr std::uint32_t kParent[] = {0, 0, 0, 1, 2, 3, 3, 4, 7, 5};  // of node i, before it

struct Tree {
    Harness::Rows rows;
    std::vector<std::vector<std::int32_t>> path;    // tokens
    std::vector<std::vector<std::uint32_t>> nodes;  // the same

    explicit Tree(std::uint32_t prefix) {
        for (std::uint32_t i = 0; i < std::size(kNodeToken); ++i) {
            path.push_back(i == 0 ? std::vector<std::int32_t>{} : path[kParent[i]]);
            nodes.push_back(i == 0 ? std::vector<std::uint32_t>{} : nodes[kParent[i]]);
            path[i].push_back(kNodeToken[i]);
            nodes[i].push_back(i);
            rows.add(kNodeToken[i], prefix + static_cast<std::uint32_t>(path[i].size()) - 1,
                     prefix + i, prefix,
                     (i == 0 ? 0 : rows.word[kParent[i]]) | std::uint64_t{1} << i);
        }
    }
};

// A tree behind a prompt, against its paths token by token; then its longest path is accepted and
// goes on.
void check_tree(Sequence &sequence, std::uint32_t prefix) {
    CAPTURE(prefix);
    sequence.run(Harness::Rows::prompt(test::tiny_tokens(prefix, 1), 0));
    const Tree tree(prefix);
    const auto n = static_cast<std::uint32_t>(tree.path.size());
    const auto got = sequence.run(tree.rows, n);
    for (std::uint32_t i = 0; i < n; ++i) {
        CAPTURE(i);
        CHECK(got[i] == sequence.decode(tree.path[i], prefix));
    }
    const std::vector<std::int32_t> next = {55};
    const auto last = prefix + static_cast<std::uint32_t>(tree.path.back().size());
    const auto expected = sequence.decode(next, last);  // behind the last path that was decoded

    sequence.run(tree.rows, n);
    std::vector<std::uint32_t> from, to;
    for (std::uint32_t i = 0; i < tree.nodes.back().size(); ++i) {
        if (tree.nodes.back()[i] == i) continue;
        from.push_back(prefix + tree.nodes.back()[i]);
        to.push_back(prefix + i);
    }
    REQUIRE(from.size() > 1);
    sequence.runner.memory().move_slots(sequence.pages, from, to);
    CHECK(sequence.decode(next, last) == expected);
}

// The target's KV of the first n slots of a session, bf16.
std::vector<std::byte> kv_of(Session &session, std::uint32_t n) {
    const Runner &runner = session.engine().runner();
    const std::size_t token = runner.kv().token_bytes();
    std::vector<std::byte> page(runner.memory().page_bytes()), out;
    for (std::uint32_t slot = 0; slot < n; ++slot) {
        if (slot % kPageTokens == 0)
            runner.memory().read_page(session.kv().pages[slot / kPageTokens], page.data());
        for (std::uint32_t layer = 0; layer < runner.kv().n_layers; ++layer) {
            const auto at = page.begin() + static_cast<std::ptrdiff_t>(
                                               (layer * kPageTokens + slot % kPageTokens) * token);
            out.insert(out.end(), at, at + static_cast<std::ptrdiff_t>(token));
        }
    }
    return out;
}

std::unique_ptr<Session> restored(const std::shared_ptr<Engine> &engine,
                                  const std::vector<std::byte> &bytes) {
    return restore_session(engine, bytes, false);
}

}  // namespace

TEST_CASE(
    "cuda: with the context split, a tree row has the bits of its path token by token, and its KV "
    "moves to where the path belongs") {
    cudart::start({.n_devices = 2, .n_sms = 4});
    for (const char *kv_type : {"bf16", "fp8"}) {
        CAPTURE(kv_type);
        const test::TinyCuda tiny(cat(test::context_ranks(2), ", ", test::kEager), 1, {}, kv_type);
        Sequence sequence(tiny.path());
        // Behind it begins the second part of a page; behind the others, pages.
        check_tree(sequence, 29);
        if (kv_type == std::string_view("fp8")) continue;
        for (const std::uint32_t prefix : {1U, 60U}) check_tree(sequence, prefix);
    }
    CHECK(cudart::last_fault() == "");
}

TEST_CASE("cuda: with the context split, saved sessions are those of whole pages") {
    cudart::start({.n_devices = 2, .n_sms = 4});
    for (const char *kv_type : {"bf16", "fp8"}) {
        CAPTURE(kv_type);
        const test::TinyCuda split(cat(test::context_ranks(2), ", ", test::kEager), 2, {}, kv_type),
            heads(cat(test::cuda_ranks(2), ", ", test::kEager), 2, {}, kv_type),
            one(cat(test::cuda_ranks(1), ", ", test::kEager), 2, {}, kv_type);
        const auto engine = split.open();
        Session session(engine, test::plain_greedy(8));
        session.append(test::tiny_tokens(90, 3));
        test::finish_prompt(session);
        test::step(session);
        const std::vector<std::byte> bytes = test::save(session);
        const std::vector<std::int32_t> expected = test::finish(session);
        for (const test::TinyCuda *other : {&heads, &one, &split}) {
            const auto again = restored(other->open(), bytes);
            CHECK(test::save(*again) == bytes);
            if (other == &split) CHECK(test::finish(*again) == expected);
        }
    }
}

TEST_CASE("cuda: with the context split, truncated, shared and moved pages hold what they held") {
    cudart::start({.n_devices = 2, .n_sms = 4});
    const test::TinyCuda tiny(cat(test::context_ranks(2), ", ", test::kEager), 3);
    const auto engine = tiny.open();
    const std::vector<std::int32_t> prompt = test::tiny_tokens(100, 3);
    Session first(engine, test::plain_greedy(6));
    first.append(prompt);
    const std::vector<std::int32_t> expected = test::finish(first);
    // Shared as a cached prefix.
    const std::uint64_t hits = engine->kv()->stats().hits;
    auto second = std::make_unique<Session>(engine, test::plain_greedy(6));
    second->append(prompt);
    CHECK(test::finish(*second) == expected);
    CHECK(engine->kv()->stats().hits == hits + 1);
    // Cut inside the prompt: a page that others share is copied.
    second->truncate(80);
    second->append(std::span(prompt).subspan(80));
    CHECK(test::finish(*second) == expected);
    // Page 0 becomes free and the others move.
    first.truncate(0);
    engine->kv()->defragment(1e9);
    second->truncate(90);
    second->append(std::span(prompt).subspan(90));
    CHECK(test::finish(*second) == expected);
    engine->kv()->check();
}

TEST_CASE("cuda: the KV of a token takes what the estimate says, split by context or by heads") {
    for (const char *type : {"bf16", "fp8"}) {
        for (const std::string &ranks : {test::context_ranks(2), test::cuda_ranks(2)}) {
            CAPTURE(ranks);
            const test::TempDir dir;
            const auto taken = [&](std::uint32_t tokens) {
                cudart::start({.n_devices = 2, .n_sms = 4});
                const std::string path = test::cuda_deployment(
                    dir, cat(ranks, ", ", test::kEager, R"(, "kv": {"type": ")", type,
                             R"(", "capacity_tokens": )", tokens, "}"));
                const std::uint64_t bytes = estimate(read_deployment(path), 8ULL << 30).kv_bytes;
                const Runner runner(read_deployment(path), Progress());
                return std::pair(bytes, cudart::live().bytes);
            };
            const auto few = taken(2048), many = taken(4096);
            CHECK(many.second - few.second == 2 * (many.first - few.first));
        }
    }
}

TEST_SUITE_BEGIN("slow");

// Its tree leaves the likeliest path: slot 42 becomes slot 37, and 8 tokens of a page are on a GPU.
TEST_CASE(
    "cuda: with the context split over eight GPUs, steps that they do by themselves give the "
    "golden's tokens, and leave the KV that those with the host leave") {
    cudart::start({.n_devices = 8, .n_sms = 4});
    const auto engine = test::cuda_engine(
        cat(test::context_ranks(8),
            R"(, "graphs": {"widths": [8], "sessions": [1]}, "speculation": {"max_nodes": 7})"));
    const test::GoldenReply golden = test::golden_replies()[11];
    REQUIRE(golden.prompt.size() == 29);
    SessionOptions options = test::plain_greedy(12);
    options.draft_budget = 7;
    SessionOptions observed = options;
    observed.logprobs = 1;  // are the host's
    std::vector<std::vector<std::byte>> kv;
    std::vector<std::uint64_t> launches;
    for (const SessionOptions &o : {options, observed}) {
        Session session(engine, o);
        session.append(golden.prompt);
        test::finish_prompt(session);
        const std::uint64_t before = cudart::n_calls("cudaGraphLaunch");
        test::finish(session);
        CHECK(std::ranges::equal(session.tokens().subspan(29), golden.tokens));
        launches.push_back(cudart::n_calls("cudaGraphLaunch") - before);
        CHECK(session.stats().accepted > 4);
        kv.push_back(kv_of(session, 39));
    }
    CHECK(2 * launches[0] < launches[1]);
    CHECK(kv[0] == kv[1]);
    CHECK(cudart::last_fault() == "");
}

TEST_SUITE_END();
