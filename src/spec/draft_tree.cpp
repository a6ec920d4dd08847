#include "spec/draft_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kimi {
namespace {

// A path that could be taken next: rank `rank` of offset `depth` below row `parent`.
struct Candidate {
    double cost;  // minus the summed log-probability
    std::uint8_t parent, depth, rank;
};

// The ranks of an offset that may follow a row, and what their log-probabilities gain because
// others may not.
struct Choices {
    std::uint64_t ranks = 0;
    double gain = 0;

    // The first of them from a rank on; 64 if there is none.
    std::uint32_t from(std::uint32_t rank) const {
        return static_cast<std::uint32_t>(std::countr_zero(rank < 64 ? ranks >> rank << rank : 0));
    }
};

// Of the first k ranks of the offset behind a row.
Choices choices_behind(const DraftLists &lists, std::uint32_t k, const DraftTree &tree,
                       std::uint32_t row, DraftFilter *filter) {
    const std::uint64_t all = (std::uint64_t{1} << k) - 1;
    if (filter == nullptr) return {all, 0};
    const std::size_t first = (row == 0 ? 0 : std::size_t{tree.depth[row - 1]}) * lists.k;
    Choices choices{filter->allowed(tree, row, lists.token.subspan(first, k)) & all, 0};
    if (choices.ranks == all) return choices;
    double total = 0, left = 0;
    for (std::uint32_t rank = 0; rank < k; ++rank) {
        const double p = std::exp(lists.log_probability[first + rank]);
        total += p;
        if ((choices.ranks >> rank & 1) != 0) left += p;
    }
    choices.gain = std::log(total / left);
    return choices;
}

// The ranks that may be looked at: more than the budget only if some may be left out.
std::uint32_t n_ranks(const DraftLists &lists, std::uint32_t budget, const DraftFilter *filter) {
    return std::min(lists.k, filter == nullptr ? budget : kMaxTreeNodes);
}

// Best-first search. The cost of a path is updated from its sibling's or parent's, never summed
// anew, which fixes how it is rounded.
class Search {
  public:
    Search(const DraftLists &lists, std::uint32_t budget, DraftTree &tree, DraftFilter *filter)
        : lists_(lists),
          budget_(std::min(budget, kMaxTreeNodes)),
          k_(n_ranks(lists, budget_, filter)),
          tree_(tree),
          filter_(filter) {}

    void run() {
        tree_.n = 0;
        if (budget_ > 0 && k_ > 0) open(0, 0, 0);
        while (size_ > 0 && tree_.n < budget_) {
            const Candidate best = pop();
            const std::uint32_t node = tree_.n++;
            tree_.token[node] = lists_.token[(best.depth - 1U) * lists_.k + best.rank];
            tree_.parent[node] = best.parent;
            tree_.depth[node] = best.depth;
            tree_.log_probability[node] = -best.cost;
            rank_[node] = best.rank;
            const std::uint32_t sibling = choices_[best.parent].from(best.rank + 1U);
            if (sibling < k_) {
                const double cost =
                    best.cost + value(best.depth, best.rank) - value(best.depth, sibling);
                push({cost, best.parent, best.depth, static_cast<std::uint8_t>(sibling)});
            }
            open(node + 1, best.depth, best.cost);
        }
    }

  private:
    // The best child of a row becomes a candidate.
    void open(std::uint32_t row, std::uint32_t depth, double cost) {
        if (depth == lists_.depth) return;
        choices_[row] = choices_behind(lists_, k_, tree_, row, filter_);
        const std::uint32_t rank = choices_[row].from(0);
        if (rank >= k_) return;
        push({cost - value(depth + 1, rank) - choices_[row].gain, static_cast<std::uint8_t>(row),
              static_cast<std::uint8_t>(depth + 1), static_cast<std::uint8_t>(rank)});
    }

    double value(std::uint32_t depth, std::uint32_t rank) const {
        return lists_.log_probability[(depth - 1) * lists_.k + rank];
    }

    // The ranks along a path, root first; only ties need them.
    std::uint32_t ranks(const Candidate &c, std::uint8_t *out) const {
        std::uint32_t n = c.depth;
        out[n - 1] = c.rank;
        for (std::uint32_t row = c.parent; row > 0; row = tree_.parent[row - 1])
            out[tree_.depth[row - 1] - 1U] = rank_[row - 1];
        return n;
    }

    // a comes after b
    bool after(const Candidate &a, const Candidate &b) const {
        if (a.cost != b.cost) return a.cost > b.cost;
        std::uint8_t of_a[kMaxTreeNodes + 1], of_b[kMaxTreeNodes + 1];
        const std::uint32_t n_a = ranks(a, of_a), n_b = ranks(b, of_b);
        return std::lexicographical_compare(of_b, of_b + n_b, of_a, of_a + n_a);
    }

    void push(const Candidate &candidate) {
        if (!std::isfinite(candidate.cost)) return;
        heap_[size_++] = candidate;
        std::push_heap(heap_, heap_ + size_,
                       [&](const auto &a, const auto &b) { return after(a, b); });
    }
    Candidate pop() {
        std::pop_heap(heap_, heap_ + size_,
                      [&](const auto &a, const auto &b) { return after(a, b); });
        return heap_[--size_];
    }

    const DraftLists &lists_;
    std::uint32_t budget_, k_;
    DraftTree &tree_;
    DraftFilter *filter_;
    std::uint8_t rank_[kMaxTreeNodes];    // of each node
    Choices choices_[kMaxTreeNodes + 1];  // of each row that has a next offset
    Candidate heap_[kMaxTreeNodes + 2];   // every node taken adds at most one
    std::uint32_t size_ = 0;
};

}  // namespace

void build_draft_tree(const DraftLists &lists, std::uint32_t budget, DraftTree &tree,
                      DraftFilter *filter) {
    Search(lists, budget, tree, filter).run();
}

void build_draft_chain(const DraftLists &lists, std::uint32_t budget, DraftTree &tree,
                       DraftFilter *filter) {
    tree.n = 0;
    double sum = 0;
    const std::uint32_t k = n_ranks(lists, 1, filter);
    for (std::uint32_t i = 0; i < std::min({budget, lists.depth, kMaxTreeNodes}); ++i) {
        const Choices choices = choices_behind(lists, k, tree, i, filter);
        const std::uint32_t rank = choices.from(0);
        if (rank >= k) return;
        const std::size_t at = std::size_t{i} * lists.k + rank;
        const double value = lists.log_probability[at] + choices.gain;
        if (!std::isfinite(value)) return;
        tree.token[i] = lists.token[at];
        tree.parent[i] = static_cast<std::uint8_t>(i);
        tree.depth[i] = static_cast<std::uint8_t>(i + 1);
        tree.log_probability[i] = sum += value;
        tree.n = i + 1;
    }
}

}  // namespace kimi
