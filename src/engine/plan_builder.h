// Collects the rows of one pass. Holds at most max_rows rows and allocates nothing after
// construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/step_plan.h"
#include "spec/draft_tree.h"

namespace kimi {

class PlanBuilder {
  public:
    explicit PlanBuilder(std::uint32_t max_rows);

    void clear();
    std::uint32_t n_rows() const { return static_cast<std::uint32_t>(token_.size()); }

    // Consecutive tokens of a sequence, the first at slot first_slot. Where with_logits is set, the
    // last one's logits are computed. Returns their index.
    std::uint32_t add_prompt(std::span<const std::uint32_t> pages,
                             std::span<const std::int32_t> tokens, std::uint32_t first_slot,
                             bool with_logits);
    // A root at slot root_slot and the nodes of a tree at the slots behind it; all rows have
    // logits. Returns the index of the root's.
    std::uint32_t add_tree(std::span<const std::uint32_t> pages, std::int32_t root,
                           std::uint32_t root_slot, const DraftTree &tree);

    StepPlan plan() const;

  private:
    void add_row(std::int32_t token, std::uint32_t position, std::uint32_t slot, std::uint32_t base,
                 std::uint64_t word);

    std::uint32_t max_rows_;
    std::vector<std::int32_t> token_;
    std::vector<std::uint32_t> position_, slot_, base_, logit_row_;
    std::vector<std::uint64_t> word_;
    std::vector<PlanSequence> sequences_;
};

}  // namespace kimi
