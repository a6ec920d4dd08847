#include "spec/draft_tree.h"

#include <algorithm>
#include <cmath>

namespace kimi {
namespace {

// A path that could be taken next: rank `rank` of offset `depth` below row `parent`.
struct Candidate {
    double cost;  // minus the summed log-probability
    std::uint8_t parent, depth, rank;
};

// Best-first search. The cost of a path is updated from its sibling's or parent's, never summed
// anew, which fixes how it is rounded.
class Search {
  public:
    Search(const DraftLists &lists, std::uint32_t budget, DraftTree &tree)
        : lists_(lists),
          budget_(std::min(budget, kMaxTreeNodes)),
          k_(std::min(lists.k, budget_)),
          tree_(tree) {}

    void run() {
        tree_.n = 0;
        if (lists_.depth == 0 || k_ == 0) return;
        push({-value(1, 0), 0, 1, 0});
        while (size_ > 0 && tree_.n < budget_) {
            const Candidate best = pop();
            const std::uint32_t node = tree_.n++;
            tree_.token[node] = lists_.token[(best.depth - 1U) * lists_.k + best.rank];
            tree_.parent[node] = best.parent;
            tree_.depth[node] = best.depth;
            tree_.log_probability[node] = -best.cost;
            rank_[node] = best.rank;
            if (best.rank + 1U < k_) {
                const double cost =
                    best.cost + value(best.depth, best.rank) - value(best.depth, best.rank + 1U);
                push({cost, best.parent, best.depth, static_cast<std::uint8_t>(best.rank + 1)});
            }
            if (best.depth < lists_.depth)
                push({best.cost - value(best.depth + 1U, 0), static_cast<std::uint8_t>(node + 1),
                      static_cast<std::uint8_t>(best.depth + 1), 0});
        }
    }

  private:
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
    std::uint8_t rank_[kMaxTreeNodes];   // of each node
    Candidate heap_[kMaxTreeNodes + 2];  // every node taken adds at most one
    std::uint32_t size_ = 0;
};

}  // namespace

void build_draft_tree(const DraftLists &lists, std::uint32_t budget, DraftTree &tree) {
    Search(lists, budget, tree).run();
}

void build_draft_chain(const DraftLists &lists, std::uint32_t budget, DraftTree &tree) {
    tree.n = 0;
    double sum = 0;
    for (std::uint32_t i = 0; i < std::min({budget, lists.depth, kMaxTreeNodes}); ++i) {
        const double value = lists.log_probability[std::size_t{i} * lists.k];
        if (!std::isfinite(value)) return;
        tree.token[i] = lists.token[std::size_t{i} * lists.k];
        tree.parent[i] = static_cast<std::uint8_t>(i);
        tree.depth[i] = static_cast<std::uint8_t>(i + 1);
        tree.log_probability[i] = sum += value;
        tree.n = i + 1;
    }
}

}  // namespace kimi
