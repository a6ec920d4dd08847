// Collects the rows of one pass. Holds at most max_rows rows and allocates nothing after
// construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/step_plan.h"

namespace kimi {

class PlanBuilder {
  public:
    explicit PlanBuilder(std::uint32_t max_rows);

    void clear();
    std::uint32_t rows_left() const {
        return max_rows_ - static_cast<std::uint32_t>(token_.size());
    }

    // Consecutive tokens of a sequence, the first at slot first_slot. Where with_logits is set, the
    // last one's logits are computed. Returns the index of these logits.
    std::uint32_t add_prompt(std::span<const std::uint32_t> pages,
                             std::span<const std::int32_t> tokens, std::uint32_t first_slot,
                             bool with_logits);

    StepPlan plan() const;

  private:
    std::uint32_t max_rows_;
    std::vector<std::int32_t> token_;
    std::vector<std::uint32_t> position_, slot_, base_, logit_row_;
    std::vector<std::uint64_t> word_;
    std::vector<PlanSequence> sequences_;
};

}  // namespace kimi
