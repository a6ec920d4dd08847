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

// A block is in one slice.
std::uint32_t slice_rows(std::uint32_t block_size) {
    return block_size == 0 ? kMaxRows : kMaxRows / block_size * block_size;
}

}  // namespace

PassSlices::PassSlices(std::uint32_t max_rows, std::uint32_t max_context, const DraftShape &draft) {
    const std::uint32_t rows = slice_rows(draft.block_size), n = (max_rows + rows - 1) / rows;
    slices_.reserve(n);
    for (std::uint32_t i = 0; i < n; ++i) slices_.emplace_back(max_context, draft);
}

template <typename Plan, typename Sequence>
void PassSlices::cut(const Plan &plan, std::uint32_t rows,
                     std::array<Sequence, kMaxRows> &sequences, cudaStream_t stream) {
    const auto n_rows = static_cast<std::uint32_t>(plan.position.size());
    n_ = 0;
    for (std::uint32_t begin = 0; begin < n_rows; begin += rows) {
        const std::uint32_t end = std::min(begin + rows, n_rows);
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
    cut(plan, kMaxRows, plan_sequences_, stream);
}

void PassSlices::set(const DraftPlan &plan, cudaStream_t stream) {
    const bool blocks = !plan.token.empty();
    cut(plan, blocks ? slice_rows(plan.sequences[0].n_rows) : kMaxRows, draft_sequences_, stream);
}

}  // namespace kimi::cuda
