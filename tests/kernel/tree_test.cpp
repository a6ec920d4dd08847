#include "kernels/tree_accept.h"
#include "spec/draft_tree.h"
#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

// The drafter's lists of several sequences; log-probabilities descend along a list.
struct Trees {
    std::uint32_t n, max_sequences, depth, k;
    std::vector<std::uint32_t> budget;
    unsigned steps = 1000;           // few: many equal sums
    std::uint32_t rows = kTreeRows;  // of each sequence in the pass
    std::vector<std::int32_t> token = {};
    std::vector<double> log_probability = {};
    Buffer<std::uint32_t> first_row{"first_row", max_sequences}, n_rows{"rows", max_sequences},
        n_nodes{"n_nodes", max_sequences};
    Buffer<double> node_log{"node_log_probability", max_sequences *std::size_t{kTreeRows}};
    Buffer<std::int32_t> row_token{"row_token", n *std::size_t{rows}};
    Buffer<std::uint32_t> row_position{"row_position", n *std::size_t{rows}};
    Buffer<std::uint64_t> row_word{"row_word", n *std::size_t{rows}};
    Buffer<std::uint8_t> row_parent{"row_parent", n *std::size_t{rows}};

    void fill(unsigned seed) {
        std::mt19937 random(seed);
        for (std::uint32_t list = 0; list < n * depth; ++list) {
            double value = 0;
            for (std::uint32_t i = 0; i < k; ++i) {
                value -= static_cast<double>(random() % steps) / steps + (steps > 10 ? 1e-6 : 0);
                token.push_back(static_cast<std::int32_t>(list * 100 + i));
                log_probability.push_back(value);
            }
        }
    }
    std::int32_t root(std::uint32_t sequence) const {
        return static_cast<std::int32_t>(1'000'000 + sequence);
    }
    Report build() {
        const std::size_t size = std::size_t{max_sequences} * depth * k;
        Buffer<std::int32_t> tokens("token", size), roots("root_token", max_sequences);
        Buffer<double> logs("log_probability", size);
        Buffer<std::uint32_t> budgets("budget", max_sequences),
            positions("root_position", max_sequences);
        tokens.upload(token);
        logs.upload(log_probability);
        budgets.upload(budget);
        for (std::uint32_t s = 0; s < n; ++s) {
            roots.upload(std::vector<std::int32_t>{root(s)}, s);
            positions.upload(one(1000 * s), s);
            first_row.upload(one(rows * s), s);
            n_rows.upload(one(rows), s);
        }
        const Buffer<std::uint32_t> n_sequences("n_sequences", one(n));
        return run([&] {
            tree_build({tokens.data(), logs.data(), depth, k, n_sequences.data(), budgets.data(),
                        first_row.data(), n_rows.data(), roots.data(), positions.data(),
                        max_sequences, n_nodes.data(), node_log.data(), row_token.data(),
                        row_position.data(), row_word.data(), row_parent.data()},
                       stream());
        });
    }
    DraftTree expected(std::uint32_t sequence) const {
        DraftTree tree;
        const std::size_t size = std::size_t{depth} * k, first = sequence * size;
        build_draft_tree(
            {depth, k, {token.data() + first, size}, {log_probability.data() + first, size}},
            budget[sequence], tree);
        return tree;
    }
    void check() {
        check_clean(build());
        const auto nodes = n_nodes.download();
        const auto logs = node_log.download();
        const auto tokens = row_token.download();
        const auto positions = row_position.download();
        const auto words = row_word.download();
        const auto parents = row_parent.download();
        for (std::uint32_t s = 0; s < n; ++s) {
            const DraftTree tree = expected(s);
            REQUIRE(nodes[s] == tree.n);
            for (std::uint32_t i = 0; i < tree.n; ++i)
                REQUIRE(logs[s * kTreeRows + i] == tree.log_probability[i]);
            const std::size_t first = std::size_t{s} * rows;
            CHECK(tokens[first] == root(s));
            CHECK(words[first] == 1);
            CHECK(positions[first] == 1000 * s);
            CHECK(parents[first] == kNoParent);
            for (std::uint32_t row = tree.n + 1; row < rows; ++row) {
                REQUIRE(words[first + row] == (std::uint64_t{1} << row | 1));
                REQUIRE(parents[first + row] == kNoParent);
                REQUIRE(tokens[first + row] == root(s));
                REQUIRE(positions[first + row] == 1000 * s);
            }
            for (std::uint32_t i = 0; i < std::min(tree.n, rows - 1); ++i) {
                REQUIRE(tokens[first + i + 1] == tree.token[i]);
                REQUIRE(parents[first + i + 1] == tree.parent[i]);
                REQUIRE(positions[first + i + 1] == 1000 * s + tree.depth[i]);
                REQUIRE(words[first + i + 1] == tree.ancestors(i + 1));
            }
        }
    }
};

TEST_CASE("kernel: tree_build makes the trees of the host's search") {
    for (const unsigned steps : {1000U, 3U}) {
        for (const std::uint32_t depth : {1U, 7U, 16U}) {
            for (const std::uint32_t k : {1U, 4U, 63U}) {
                Trees t{4, 5, depth, k, {0, 1, 9, 63}, steps};
                t.fill(depth * k + steps);
                CAPTURE(steps);
                CAPTURE(depth);
                CAPTURE(k);
                t.check();
            }
        }
    }
    Trees none{1, 1, 0, 4, {9}};
    none.check();
}

TEST_CASE("kernel: tree_build of every width") {
    Trees t{64, 64, 7, 16, {}};
    for (std::uint32_t budget = 0; budget < 64; ++budget) t.budget.push_back(budget);
    t.fill(1);
    t.check();
}

TEST_CASE("kernel: tree_build lists the nodes that the pass has no rows for") {
    for (const std::uint32_t rows : {1U, 2U, 17U, 33U}) {
        CAPTURE(rows);
        Trees t{4, 4, 7, 16, {0, 1, 16, 63}, 1000, rows};
        t.fill(rows);
        t.check();
    }
}

TEST_CASE("kernel: tree_build ends paths whose probability is not finite") {
    Trees t{2, 2, 3, 4, {20, 20}};
    t.fill(5);
    t.log_probability[1 * 4 + 1] = -INFINITY;
    t.log_probability[12] = std::nan("");
    t.check();
}

TEST_CASE(
    "kernel: tree_accept walks to where the target leaves the tree, and moves the path into "
    "place") {
    Trees t{40, 41, 7, 8, std::vector<std::uint32_t>(40, 30)};
    t.fill(9);
    t.check();
    // Where the target follows a node, at every depth and rank; otherwise it says something else.
    std::vector<std::int32_t> target(41 * kTreeRows, -7);
    std::vector<std::vector<std::uint32_t>> paths(40);
    for (std::uint32_t s = 0; s < 40; ++s) {
        const DraftTree tree = t.expected(s);
        const std::uint64_t word = tree.ancestors(s * 7 % (tree.n + 1));
        for (std::uint32_t row = 0; row <= tree.n; ++row) {
            if (word >> row & 1) paths[s].push_back(row);
        }
        for (std::size_t i = 1; i < paths[s].size(); ++i)
            target[s * kTreeRows + paths[s][i - 1]] = tree.token[paths[s][i] - 1];
    }
    std::vector<std::uint32_t> cells(41 * kTreeRows);
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<std::uint32_t>(7 * i);
    const Buffer<std::int32_t> target_device("target", target);
    const Buffer<std::uint32_t> cell("cell", cells), n_sequences("n_sequences", one(40));
    const Buffer<std::uint32_t> n_committed("n_committed", 41), path("path", 41 * kTreeRows),
        n_moves("n_moves", 1);
    const Buffer<std::uint32_t> from("from", 41 * 63), to("to", 41 * 63);
    const Buffer<std::int32_t> token("committed", 41 * kTreeRows);
    check_clean(run([&] {
        tree_accept(
            {n_sequences.data(), 41, t.first_row.data(), t.n_rows.data(), t.row_token.data(),
             t.row_parent.data(), target_device.data(), cell.data(), n_committed.data(),
             path.data(), token.data(), n_moves.data(), from.data(), to.data()},
            stream());
    }));
    const auto got_n = n_committed.download(), got_path = path.download();
    const auto got_token = token.download();
    std::vector<std::uint32_t> expected_from, expected_to;
    for (std::uint32_t s = 0; s < 40; ++s) {
        REQUIRE(got_n[s] == paths[s].size());
        for (std::uint32_t i = 0; i < paths[s].size(); ++i) {
            CHECK(got_path[s * kTreeRows + i] == paths[s][i]);
            CHECK(got_token[s * kTreeRows + i] == target[s * kTreeRows + paths[s][i]]);
            if (paths[s][i] == i) continue;
            expected_from.push_back(cells[s * kTreeRows + paths[s][i]]);
            expected_to.push_back(cells[s * kTreeRows + i]);
        }
    }
    REQUIRE(n_moves.download()[0] == expected_from.size());
    auto got_from = from.download(), got_to = to.download();
    got_from.resize(expected_from.size());
    got_to.resize(expected_to.size());
    CHECK(got_from == expected_from);
    CHECK(got_to == expected_to);

    check_clean(run([&] {
        tree_accept(
            {n_sequences.data(), 41, t.first_row.data(), t.n_rows.data(), t.row_token.data(),
             t.row_parent.data(), target_device.data(), cell.data(), n_committed.data(),
             path.data(), token.data(), n_moves.data(), from.data(), to.data(), true},
            stream());
    }));
    auto got_rows = from.download();
    got_rows.resize(expected_from.size());
    for (std::uint32_t &row : got_rows) row = cells[row];
    CHECK(got_rows == expected_from);
}

TEST_CASE("kernel: tree_build and tree_accept fit their budgets") {
    check_budget("kernels/tree_build.cu", {"tree_build_kernel", 32, 0, 8});
    check_budget("kernels/tree_accept.cu", {"tree_accept_kernel", 256, 0, 1});
}

}  // namespace
}  // namespace kimi::test
