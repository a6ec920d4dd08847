// How many drafted nodes a step verifies: chosen online from measured times and acceptance.
#pragma once

#include <cstdint>

#include "spec/draft_tree.h"

namespace kimi {

// Seconds of a pass as a line over its number of rows, fitted to recent passes with fading weights.
class PassCost {
  public:
    void observe(double rows, double seconds);
    double estimate(double rows) const;
    bool known() const { return weight_ > 0; }

  private:
    // Weighted sums of 1, rows, rows^2, seconds, rows * seconds.
    double weight_ = 0, rows_ = 0, rows2_ = 0, seconds_ = 0, product_ = 0;
};

// The seconds of one drafting call, a fading mean.
class DraftCost {
  public:
    void observe(double seconds) {
        seconds_ = seconds_ < 0 ? seconds : 0.9 * seconds_ + 0.1 * seconds;
    }
    double estimate() const { return seconds_ < 0 ? 0 : seconds_; }

  private:
    double seconds_ = -1;
};

// KIMI_AUTO of one session. A node is worth the probability that its path is accepted: the
// drafter's own, scaled by how it fared recently. The step takes the nodes that give the most
// tokens per second. Where even the best tree is slower than plain decoding, drafting pauses, for
// longer each time, and is then tried again.
class BudgetPolicy {
  public:
    // False while drafting pauses; counts the step.
    bool wants_draft();
    // Nodes to verify of a tree in the order of its nodes; other_rows is what the pass computes
    // anyway for other sessions.
    std::uint32_t choose(const DraftTree &tree, const PassCost &pass, const DraftCost &draft,
                         double other_rows) {
        return choose({tree.log_probability, tree.n}, pass, draft, other_rows);
    }
    // The same of a tree that is not known yet: the last one stands for it, of which n_listed nodes
    // have a probability.
    void remember(const DraftTree &last, std::uint32_t n_listed);
    std::uint32_t choose_ahead(const PassCost &pass, const DraftCost &draft, double other_rows);
    // What became of the nodes of a verified tree.
    void observe(const DraftTree &tree, std::uint32_t accepted);

  private:
    std::uint32_t choose(std::span<const double> log_probability, const PassCost &pass,
                         const DraftCost &draft, double other_rows);

    double expected_ = 1, accepted_ = 1;    // fading sums of predicted and real acceptance
    std::uint32_t pause_ = 0, paused_ = 0;  // length of the last pause, and what is left of it
    // Of the last tree; none after a pause.
    std::uint32_t n_last_ = 0;
    double last_[kMaxTreeNodes];
};

}  // namespace kimi
