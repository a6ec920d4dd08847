#include "backend/cuda/pass_slices.h"

#include <algorithm>

namespace kimi::cuda {
namespace {

using Picks = std::span<const std::uint32_t>;

std::uint32_t index_of_row(Picks ascending, std::uint32_t row) {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(ascending, row) - ascending.begin());
}

// How many rows before this one are picked.
std::uint32_t picks_before(const StepPlan &plan, std::uint32_t row) {
    return index_of_row(plan.logit_row, row);
}
std::uint32_t picks_before(const DraftPlan &plan, std::uint32_t row) {
    const bool context = plan.token.empty();  // each of its rows is made from a picked one
    return context ? row : index_of_row(plan.picked, row);
}

// The rows [begin, end) of a plan, their picks, and these parts of its sequences.
StepPlan slice_of(const StepPlan &plan, std::uint32_t begin, std::uint32_t end,
                  std::span<const PlanSequence> sequences) {
    const std::uint32_t n = end - begin, pick = picks_before(plan, begin);
    return {plan.token.subspan(begin, n),
            plan.position.subspan(begin, n),
            plan.slot.subspan(begin, n),
            plan.base.subspan(begin, n),
            plan.word.subspan(begin, n),
            sequences,
            plan.logit_row.subspan(pick, picks_before(plan, end) - pick)};
}
DraftPlan slice_of(const DraftPlan &plan, std::uint32_t begin, std::uint32_t end,
                   std::span<const DraftSequence> sequences) {
    const std::uint32_t n = end - begin, pick = picks_before(plan, begin);
    return {plan.token.empty() ? plan.token : plan.token.subspan(begin, n),
            plan.position.subspan(begin, n), sequences,
            plan.picked.subspan(pick, picks_before(plan, end) - pick)};
}

void skip_positions(PlanSequence &, std::uint32_t) {}
void skip_positions(DraftSequence &sequence, std::uint32_t n) {
    sequence.first_position += n;
}

// What of a sequence lies in the rows [begin, end), which its rows are then counted from.
template <typename Sequence>
Sequence part_of(Sequence sequence, std::uint32_t begin, std::uint32_t end) {
    const std::uint32_t first = std::max(sequence.first_row, begin),
                        last = std::min(sequence.first_row + sequence.n_rows, end);
    skip_positions(sequence, first - std::min(first, sequence.first_row));
    sequence.first_row = first - begin;
    sequence.n_rows = last > first ? last - first : 0;
    return sequence;
}

bool is_whole(const StepPlan &plan, const PlanSequence &tree) {
    return plan.word[tree.first_row + tree.n_rows - 1] != 0;
}
bool is_whole(const DraftPlan &plan, const DraftSequence &) {
    const bool block = !plan.token.empty();
    return block;
}

// Where the slice that begins at a row ends.
template <typename Plan>
std::uint32_t end_of_slice(const Plan &plan, std::uint32_t begin) {
    const auto n_rows = static_cast<std::uint32_t>(plan.position.size());
    if (n_rows - begin <= kMaxRows) return n_rows;
    const std::uint32_t end = begin + kMaxRows;
    for (const auto &s : plan.sequences)
        if (s.first_row < end && s.first_row + s.n_rows > end && is_whole(plan, s))
            return s.first_row;
    return end;
}

}  // namespace

PassSlices::PassSlices(std::uint32_t max_rows, std::uint32_t max_context, const DraftShape &draft) {
    // Two that follow each other have more than kMaxRows rows together.
    const std::uint32_t n = max_rows <= kMaxRows ? 1 : 2 * ((max_rows + kMaxRows - 1) / kMaxRows);
    slices_.reserve(n);
    for (std::uint32_t i = 0; i < n; ++i) slices_.emplace_back(max_context, draft);
}

template <typename Plan, typename Sequence>
void PassSlices::cut(const Plan &plan, std::array<Sequence, kMaxRows> &sequences,
                     cudaStream_t stream) {
    const auto n_rows = static_cast<std::uint32_t>(plan.position.size());
    n_ = 0;
    for (std::uint32_t begin = 0, end = 0; begin < n_rows; begin = end) {
        end = end_of_slice(plan, begin);
        std::size_t n = 0;
        for (const Sequence &sequence : plan.sequences) {
            const Sequence part = part_of(sequence, begin, end);
            if (part.n_rows > 0) sequences.at(n++) = part;
        }
        const Plan slice = slice_of(plan, begin, end, std::span(sequences).first(n));
        slices_.at(n_++).set(slice, {begin, picks_before(plan, begin), n_rows}, stream);
    }
}

void PassSlices::set(const StepPlan &plan, cudaStream_t stream) {
    kv_tokens_ = 0;
    for (const PlanSequence &s : plan.sequences)
        kv_tokens_ += plan.slot[s.first_row + s.n_rows - 1] + 1;
    cut(plan, plan_sequences_, stream);
}

void PassSlices::set(const DraftPlan &plan, cudaStream_t stream) {
    cut(plan, draft_sequences_, stream);
}

}  // namespace kimi::cuda
