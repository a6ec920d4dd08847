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

void PlanBuilder::add_row(std::int32_t token, std::uint32_t position, std::uint32_t slot,
                          std::uint32_t base, std::uint64_t word) {
    KIMI_CHECK(n_rows() < max_rows_);
    token_.push_back(token);
    position_.push_back(position);
    slot_.push_back(slot);
    base_.push_back(base);
    word_.push_back(word);
}

std::uint32_t PlanBuilder::add_prompt(std::span<const std::uint32_t> pages,
                                      std::span<const std::int32_t> tokens,
                                      std::uint32_t first_slot, bool with_logits) {
    const auto n = static_cast<std::uint32_t>(tokens.size());
    sequences_.push_back({n_rows(), n, pages});
    for (std::uint32_t i = 0; i < n; ++i) {
        const std::uint32_t slot = first_slot + i;
        add_row(tokens[i], slot, slot, slot + 1, 0);
    }
    const auto logits = static_cast<std::uint32_t>(logit_row_.size());
    if (with_logits) logit_row_.push_back(n_rows() - 1);
    return logits;
}

std::uint32_t PlanBuilder::add_tree(std::span<const std::uint32_t> pages, std::int32_t root,
                                    std::uint32_t root_slot, const DraftTree &tree) {
    sequences_.push_back({n_rows(), tree.n + 1, pages});
    const auto logits = static_cast<std::uint32_t>(logit_row_.size());
    for (std::uint32_t row = 0; row <= tree.n; ++row) {
        logit_row_.push_back(n_rows());
        add_row(row == 0 ? root : tree.token[row - 1],
                root_slot + (row == 0 ? 0 : tree.depth[row - 1]), root_slot + row, root_slot,
                tree.ancestors(row));
    }
    return logits;
}

StepPlan PlanBuilder::plan() const {
    return {token_, position_, slot_, base_, word_, sequences_, logit_row_};
}

}  // namespace kimi
