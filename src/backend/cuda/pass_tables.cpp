#include "backend/cuda/pass_tables.h"

#include <algorithm>
#include <bit>

namespace kimi::cuda {
namespace {

std::size_t table_bytes(std::uint32_t pages_stride) {
    return sizeof(PassRows) + std::size_t{kMaxRows} * pages_stride * sizeof(std::uint32_t);
}

// How many pages from the first on follow each other.
std::uint32_t run_length(std::span<const std::uint32_t> pages) {
    std::uint32_t n = pages.empty() ? 0 : 1;
    while (n < pages.size() && pages[n] == pages[0] + n) ++n;
    return n;
}

}  // namespace

PassTables::PassTables(std::uint32_t max_context, const DraftShape &draft)
    : pages_stride_((max_context + kMaxTreeNodes) / kPageTokens + 1),
      ring_slots_(draft.ring_slots),
      host_(table_bytes(pages_stride_), "pass tables"),
      device_(table_bytes(pages_stride_), "pass tables") {}

StepTables PassTables::step() const {
    return {&rows()->n_sequences, rows()->sequences, pages(),
            pages_stride_,        rows()->base,      rows()->word};
}

void PassTables::begin(PassKind kind, const SlicePlace &place,
                       std::span<const std::uint32_t> position,
                       std::span<const std::uint32_t> picked, std::size_t n_sequences) {
    KIMI_CHECK(position.size() <= kMaxRows && picked.size() <= kMaxRows && n_sequences <= kMaxRows);
    PassRows &rows = host();
    rows.n_rows = static_cast<std::uint32_t>(position.size());
    rows.n_picked = static_cast<std::uint32_t>(picked.size());
    rows.n_sequences = static_cast<std::uint32_t>(n_sequences);
    rows.n_pass_rows = place.n_pass_rows;
    std::copy(position.begin(), position.end(), rows.position);
    std::copy(picked.begin(), picked.end(), rows.picked);
    shape_ = {kind, rows.n_rows, rows.n_picked, rows.n_sequences};
    place_ = place;
}

void PassTables::set_pages(std::uint32_t sequence, std::span<const std::uint32_t> pages) {
    const std::size_t n = std::min<std::size_t>(pages.size(), pages_stride_);
    std::copy_n(pages.begin(), n,
                reinterpret_cast<std::uint32_t *>(host_.data() + sizeof(PassRows)) +
                    std::size_t{sequence} * pages_stride_);
}

void PassTables::upload(cudaStream_t stream) {
    const std::size_t bytes =
        sizeof(PassRows) + std::size_t{host().n_sequences} * pages_stride_ * sizeof(std::uint32_t);
    check(cudaMemcpyAsync(device_.data(), host_.data(), bytes, cudaMemcpyHostToDevice, stream),
          "copying the tables of a pass");
    copied_.record(stream);
}

void PassTables::set(const StepPlan &plan, const SlicePlace &place, cudaStream_t stream) {
    begin(PassKind::target, place, plan.position, plan.logit_row, plan.sequences.size());
    PassRows &rows = host();
    std::copy(plan.token.begin(), plan.token.end(), rows.token);
    std::copy(plan.base.begin(), plan.base.end(), rows.base);
    std::copy(plan.word.begin(), plan.word.end(), rows.word);
    for (std::uint32_t s = 0; s < plan.sequences.size(); ++s) {
        const PlanSequence &sequence = plan.sequences[s];
        rows.sequences[s] = {sequence.first_row, sequence.n_rows,
                             sequence.pages.empty() ? 0 : sequence.pages[0],
                             run_length(sequence.pages)};
        set_pages(s, sequence.pages);
        shape_.widest = std::max(shape_.widest, sequence.n_rows);
        for (std::uint32_t r = sequence.first_row; r < sequence.first_row + sequence.n_rows; ++r) {
            rows.cell[r] = sequence.pages[plan.slot[r] / kPageTokens] * kPageTokens +
                           plan.slot[r] % kPageTokens;
            shape_.context =
                std::max(shape_.context,
                         plan.base[r] + static_cast<std::uint32_t>(std::popcount(plan.word[r])));
        }
    }
    upload(stream);
}

void PassTables::set(const DraftPlan &plan, const SlicePlace &place, cudaStream_t stream) {
    const bool blocks = !plan.token.empty();
    begin(blocks ? PassKind::block : PassKind::context, place, plan.position, plan.picked,
          plan.sequences.size());
    PassRows &rows = host();
    std::copy(plan.token.begin(), plan.token.end(), rows.token);
    for (std::uint32_t s = 0; s < plan.sequences.size(); ++s) {
        const DraftSequence &sequence = plan.sequences[s];
        DraftSpan span = {sequence.first_row,  sequence.n_rows, sequence.first_position,
                          sequence.full_begin, sequence.ring,   {}};
        rows.full[s] = span;
        span.begin = sequence.ring_begin;
        rows.sliding[s] = span;
        set_pages(s, sequence.pages);
        shape_.widest = std::max(shape_.widest, sequence.n_rows);
        shape_.context = std::max(shape_.context, sequence.first_position);
        if (blocks) continue;  // they write no context
        for (std::uint32_t i = 0; i < sequence.n_rows; ++i) {
            const std::uint32_t p = sequence.first_position + i, r = sequence.first_row + i;
            rows.cell[r] = sequence.pages[p / kPageTokens] * kPageTokens + p % kPageTokens;
            if (ring_slots_ > 0) rows.ring_cell[r] = sequence.ring * ring_slots_ + p % ring_slots_;
        }
    }
    upload(stream);
}

}  // namespace kimi::cuda
