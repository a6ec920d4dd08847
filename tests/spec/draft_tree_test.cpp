#include "spec/draft_tree.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/top_k.h"
#include "check.h"

using namespace kimi;

namespace {

struct Lists {
    std::uint32_t depth = 0, k = 0;
    std::vector<std::int32_t> token;
    std::vector<double> log_probability;

    operator DraftLists() const { return {depth, k, token, log_probability}; }
};

// The lists of logits [depth][vocab].
Lists top(const std::vector<std::vector<float>> &logits, std::uint32_t k) {
    Lists out;
    out.depth = static_cast<std::uint32_t>(logits.size());
    out.k = std::min<std::uint32_t>(k, static_cast<std::uint32_t>(logits[0].size()));
    out.token.resize(out.depth * out.k);
    out.log_probability.resize(out.depth * out.k);
    const auto found = std::make_unique<TopK>();
    const TopK *const rank = found.get();
    for (std::uint32_t i = 0; i < out.depth; ++i) {
        find_top_k(logits[i], 0, out.k, *found);
        merge_top_k({&rank, 1}, out.k, &out.token[i * out.k], &out.log_probability[i * out.k]);
    }
    return out;
}

std::vector<std::vector<float>> random_position_logits(std::uint32_t depth, std::uint32_t vocab,
                                                       float scale) {
    std::mt19937 random(depth * 1000 + vocab);
    std::normal_distribution<float> normal(0, scale);
    std::vector<std::vector<float>> logits(depth, std::vector<float>(vocab));
    for (auto &row : logits)
        for (float &x : row) x = normal(random);
    return logits;
}

}  // namespace

TEST_CASE("draft tree: the reference's trees, token by token") {
    const Json goldens = test::read_json(test::data("nano-k2/ddtree.json"));
    REQUIRE(goldens.items.size() == 8);
    for (const Json &golden : goldens.items) {
        std::vector<std::vector<float>> logits;
        for (const Json &row : golden.find("logits")->items) {
            logits.emplace_back();
            for (const Json &x : row.items) logits.back().push_back(static_cast<float>(x.real));
        }
        const auto budget = static_cast<std::uint32_t>(golden.find("budget")->real);
        CAPTURE(budget);
        DraftTree tree;
        build_draft_tree(top(logits, budget), budget, tree);
        const auto &tokens = golden.find("tokens")->items;
        REQUIRE(tree.n == tokens.size());
        for (std::uint32_t i = 0; i < tree.n; ++i) {
            CHECK(tree.token[i] == tokens[i].real);
            CHECK(tree.parent[i] == golden.find("parents")->items[i].real);
            CHECK(tree.depth[i] == golden.find("depths")->items[i].real);
        }
        for (std::uint32_t row = 0; row <= tree.n; ++row)
            CHECK(std::to_string(tree.ancestors(row)) ==
                  golden.find("ancestor_words")->items[row].text);
    }
}

TEST_CASE("draft tree: the nodes are the best paths of all (exhaustive search)") {
    const auto logits = random_position_logits(4, 5, 1.5f);
    const Lists lists = top(logits, 5);
    std::vector<double> all;
    const std::function<void(std::uint32_t, double)> walk = [&](std::uint32_t depth, double sum) {
        if (depth == 4) return;
        for (std::uint32_t r = 0; r < 5; ++r) {
            all.push_back(sum + lists.log_probability[depth * 5 + r]);
            walk(depth + 1, all.back());
        }
    };
    walk(0, 0);
    std::sort(all.rbegin(), all.rend());
    DraftTree tree;
    build_draft_tree(lists, 63, tree);
    REQUIRE(tree.n == 63);
    for (std::uint32_t i = 0; i < tree.n; ++i)
        CHECK(tree.log_probability[i] == doctest::Approx(all[i]).epsilon(1e-12));
}

TEST_CASE("draft tree: ties go to the smaller ranks, whatever the heap does") {
    // All logits equal: every path of one length has the same sum.
    const Lists lists = top(std::vector(3, std::vector<float>(4, 0.25f)), 63);
    DraftTree tree;
    build_draft_tree(lists, 63, tree);
    // Depth-1 nodes in order of their ids, then depth-2 nodes in order of (first, second) rank, and
    // so on.
    REQUIRE(tree.n == 63);
    for (std::int32_t i = 0; i < 4; ++i) CHECK(tree.token[i] == i);
    for (std::int32_t i = 0; i < 16; ++i) {
        CHECK(tree.token[4 + i] == i % 4);
        CHECK(tree.parent[4 + i] == 1 + i / 4);
    }
}

TEST_CASE("draft tree: small and degenerate inputs") {
    DraftTree tree;
    build_draft_tree(top(random_position_logits(7, 50, 2), 8), 0, tree);
    CHECK(tree.n == 0);
    build_draft_tree({}, 8, tree);
    CHECK(tree.n == 0);
    build_draft_tree(top(random_position_logits(2, 2, 2), 63), 63, tree);  // all 2 + 4 paths
    CHECK(tree.n == 6);
    auto bad = random_position_logits(3, 4, 1);
    bad[1][2] = std::numeric_limits<float>::quiet_NaN();
    build_draft_tree(top(bad, 4), 63, tree);
    CHECK(tree.n == 4);  // the second offset is unusable
    build_draft_chain(top(bad, 4), 63, tree);
    CHECK(tree.n == 1);
}

TEST_CASE("draft tree: a chain is the path of the best tokens") {
    const auto logits = random_position_logits(7, 50, 2);
    DraftTree tree;
    build_draft_chain(top(logits, 4), 5, tree);
    REQUIRE(tree.n == 5);
    for (std::uint32_t i = 0; i < 5; ++i) {
        CHECK(tree.token[i] ==
              std::max_element(logits[i].begin(), logits[i].end()) - logits[i].begin());
        CHECK(tree.parent[i] == i);
        CHECK(tree.depth[i] == i + 1);
    }
    CHECK(tree.child(0, tree.token[0]) == 1);
    CHECK(tree.child(4, tree.token[4]) == 5);
    CHECK(tree.child(5, tree.token[4]) == 0);
}

TEST_CASE("draft tree: with a filter, the best allowed paths, the others' probability shared") {
    const std::uint32_t depth = 4, vocab = 12;
    const Lists lists = top(random_position_logits(depth, vocab, 1.5f), vocab);
    // A token may follow another by their sum.
    const auto may_follow = [](std::int32_t before, std::int32_t token) {
        return (before * 5 + token) % 3 == 0;
    };
    struct Filter final : DraftFilter {
        decltype(may_follow) &may;
        explicit Filter(decltype(may_follow) &f) : may(f) {}
        std::uint64_t allowed(const DraftTree &tree, std::uint32_t row,
                              std::span<const std::int32_t> tokens) override {
            std::uint64_t bits = 0;
            for (std::size_t i = 0; i < tokens.size(); ++i)
                if (may(row == 0 ? -1 : tree.token[row - 1], tokens[i])) bits |= 1ULL << i;
            return bits;
        }
    } filter(may_follow);
    std::vector<double> all;
    const std::function<void(std::uint32_t, std::int32_t, double)> walk =
        [&](std::uint32_t level, std::int32_t before, double p) {
            double allowed = 0;
            const auto probability = [&](std::uint32_t i) {
                return std::exp(lists.log_probability[level * vocab + i]);
            };
            for (std::uint32_t i = 0; level < depth && i < vocab; ++i)
                if (may_follow(before, lists.token[level * vocab + i])) allowed += probability(i);
            for (std::uint32_t i = 0; level < depth && i < vocab; ++i) {
                const std::int32_t token = lists.token[level * vocab + i];
                if (!may_follow(before, token)) continue;
                all.push_back(p * probability(i) / allowed);
                walk(level + 1, token, all.back());
            }
        };
    walk(0, -1, 1);
    std::sort(all.rbegin(), all.rend());
    for (const std::uint32_t budget : {1U, 5U, 20U, 63U}) {
        CAPTURE(budget);
        DraftTree tree;
        build_draft_tree(lists, budget, tree, &filter);
        REQUIRE(tree.n == budget);
        for (std::uint32_t i = 0; i < tree.n; ++i) {
            CHECK(std::exp(tree.log_probability[i]) == doctest::Approx(all[i]).epsilon(1e-9));
            const std::uint32_t parent = tree.parent[i];
            CHECK(may_follow(parent == 0 ? -1 : tree.token[parent - 1], tree.token[i]));
        }
    }
    DraftTree chain;
    build_draft_chain(lists, 63, chain, &filter);
    CHECK(chain.n == depth);
    for (std::uint32_t i = 0; i < chain.n; ++i) {
        const std::int32_t before = i == 0 ? -1 : chain.token[i - 1];
        std::uint32_t rank = 0;
        while (!may_follow(before, lists.token[i * vocab + rank])) ++rank;
        CHECK(chain.token[i] == lists.token[i * vocab + rank]);
    }
}

TEST_CASE("draft tree: 32 nodes take less than 50 us" * doctest::skip(test::kInstrumented)) {
    const Lists lists = top(random_position_logits(7, 4096, 2), 32);
    DraftTree tree;
    double best = 1;
    for (int i = 0; i < 200; ++i) {
        const auto start = std::chrono::steady_clock::now();
        build_draft_tree(lists, 32, tree);
        best = std::min(
            best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    MESSAGE("32 nodes: ", best * 1e6, " us");
    CHECK(best < 50e-6);
}
