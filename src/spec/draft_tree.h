// Draft trees: which continuations of the root the target verifies in one pass.
//
// Row 0 of the pass is the root, row i > 0 is node i - 1. Nodes are numbered in the order in which
// the search takes them, likeliest first, so a parent always has a smaller number than its
// children.
#pragma once

#include <cstdint>
#include <span>

#include "backend/step_plan.h"

namespace kimi {

// The best tokens of every offset behind the root and their log-probabilities, [depth, k], best
// first; offsets are independent of the path that leads to them.
struct DraftLists {
    std::uint32_t depth = 0, k = 0;
    std::span<const std::int32_t> token;
    std::span<const double> log_probability;
};

struct DraftTree {
    std::uint32_t n = 0;  // nodes
    std::int32_t token[kMaxTreeNodes];
    std::uint8_t parent[kMaxTreeNodes];     // row of the parent: 0 is the root
    std::uint8_t depth[kMaxTreeNodes];      // 1 and up
    double log_probability[kMaxTreeNodes];  // of the path, by the drafter

    // The row itself and its ancestors, root included, as bits of rows.
    std::uint64_t ancestors(std::uint32_t row) const {
        std::uint64_t word = 1;
        for (; row > 0; row = parent[row - 1]) word |= std::uint64_t{1} << row;
        return word;
    }
    // The child of `row` with this token; 0 if there is none.
    std::uint32_t child(std::uint32_t row, std::int32_t wanted) const {
        for (std::uint32_t i = row; i < n; ++i)
            if (parent[i] == row && token[i] == wanted) return i + 1;
        return 0;
    }
};

// Which tokens may follow a row of the tree that is being built.
class DraftFilter {
  public:
    virtual ~DraftFilter() = default;
    // Bit i is set where tokens[i] may follow `row`. Rows are asked for once each, a parent before
    // its children.
    virtual std::uint64_t allowed(const DraftTree &tree, std::uint32_t row,
                                  std::span<const std::int32_t> tokens) = 0;
};

// DDTree (arXiv 2604.12989): best-first search over paths by their summed log-probability, up to
// `budget` nodes. On equal sums the path with the lexicographically smaller ranks comes first.
// Offsets whose probabilities are not finite end the paths. Takes O(budget log budget) steps and
// allocates nothing. With a filter, the probability of tokens that may not follow a row goes to
// those that may.
void build_draft_tree(const DraftLists &lists, std::uint32_t budget, DraftTree &tree,
                      DraftFilter *filter = nullptr);

// The path of the best token of every offset.
void build_draft_chain(const DraftLists &lists, std::uint32_t budget, DraftTree &tree,
                       DraftFilter *filter = nullptr);

}  // namespace kimi
