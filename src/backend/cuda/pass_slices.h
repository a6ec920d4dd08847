// The tables of a pass. The kernels take 64 rows: a larger pass is slices of them, over which each
// operation runs one after the other before the next operation begins. So weights come from memory
// once and then from L2, rows see what rows before them have written, and a row has the same bits
// whatever the pass around it. Trees and blocks, whose rows see each other, are in one slice.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "backend/cuda/pass_tables.h"

namespace kimi::cuda {

class PassSlices {
  public:
    // For passes of at most max_rows.
    PassSlices(std::uint32_t max_rows, std::uint32_t max_context, const DraftShape &draft);

    // Fills the tables and enqueues their copies. Those of the pass before are done.
    void set(const StepPlan &plan, cudaStream_t stream);
    void set(const DraftPlan &plan, cudaStream_t stream);

    std::span<PassTables> used() { return {slices_.data(), n_}; }
    // Of a pass that fits one.
    PassTables &only() { return slices_[0]; }
    // Tokens of the context that the target's sequences read, together.
    std::size_t kv_tokens() const { return kv_tokens_; }

  private:
    template <typename Plan, typename Sequence>
    void cut(const Plan &plan, std::array<Sequence, kMaxRows> &sequences, cudaStream_t stream);

    std::vector<PassTables> slices_;
    std::size_t n_ = 1, kv_tokens_ = 0;
    // Of the slice that is being made.
    std::array<PlanSequence, kMaxRows> plan_sequences_;
    std::array<DraftSequence, kMaxRows> draft_sequences_;
};

}  // namespace kimi::cuda
