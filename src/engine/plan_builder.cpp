#include "engine/plan_builder.h"

#include "base/error.h"

namespace kimi {

PlanBuilder::PlanBuilder(std::uint32_t max_rows) : max_rows_(max_rows) {
    token_.reserve(max_rows);
    for (auto *column : {&position_, &slot_, &base_, &logit_row_}) column->reserve(max_rows);
    word_.reserve(max_rows);
    sequences_.reserve(max_rows);
}

void PlanBuilder::clear() {
    token_.clear();
    for (auto *column : {&position_, &slot_, &base_, &logit_row_}) column->clear();
    word_.clear();
    sequences_.clear();
}

std::uint32_t PlanBuilder::add_prompt(std::span<const std::uint32_t> pages,
                                      std::span<const std::int32_t> tokens,
                                      std::uint32_t first_slot, bool with_logits) {
    KIMI_CHECK(tokens.size() <= rows_left());
    const auto n = static_cast<std::uint32_t>(tokens.size());
    sequences_.push_back({static_cast<std::uint32_t>(token_.size()), n, pages});
    for (std::uint32_t i = 0; i < n; ++i) {
        token_.push_back(tokens[i]);
        position_.push_back(first_slot + i);
        slot_.push_back(first_slot + i);
        base_.push_back(first_slot + i + 1);
        word_.push_back(0);
    }
    if (with_logits) logit_row_.push_back(static_cast<std::uint32_t>(token_.size()) - 1);
    return static_cast<std::uint32_t>(logit_row_.size()) - 1;
}

StepPlan PlanBuilder::plan() const {
    return {token_, position_, slot_, base_, word_, sequences_, logit_row_};
}

}  // namespace kimi
