// What a step that the host does not see has in device memory, beside the tables of its passes.
#pragma once

#include "backend/cuda/kv.h"
#include "backend/cuda/pass_tables.h"
#include "backend/whole_step.h"
#include "kernels/sample.h"
#include "kernels/tree_build.h"

namespace kimi::cuda {

// The drafter's lists, [rows, k].
struct DraftedLists {
    const std::int32_t *token;
    const double *log_probability;
    std::uint32_t depth, k;  // of a sequence: rows; depth 0: nothing is drafted
};

class StepMemory {
  public:
    StepMemory(const DeviceLimits &limits, cudaStream_t stream);

    // The drafter's passes: over blocks, and over the context that grows.
    PassTables blocks, context;

    // Enqueues the copy of what the host says.
    void set(const WholeStepPlan &plan);
    const Event &copied() const { return copied_; }

    // The operations of a step, for launches of its shape. target: the tables of the target's pass.
    void build_trees(const PassTables &target, const DraftedLists &lists);
    void accept(const PassTables &target, const float *logits, std::uint32_t vocab,
                const CudaKv &kv);
    void stamp();  // the next border of its parts
    // Enqueues the copy of the result.
    void read(const PassTables &target);

    // The result is here.
    void collect();
    const WholeStepResult &result(std::uint32_t sequence) const { return results_[sequence]; }
    const WholeStepTimes &times() const { return times_; }

  private:
    static constexpr std::uint32_t kStamps = 6;

    struct Input {
        SampleOptions options[kMaxRows];
        std::uint32_t first_row[kMaxRows], rows[kMaxRows], budget[kMaxRows];  // of the sequences
        std::uint32_t root_position[kMaxRows], ring[kMaxRows];
        std::int32_t root_token[kMaxRows];
        std::uint32_t n_sequences, reserved[3];
    };
    struct Output {
        double log_probability[kMaxRows * kTreeRows];
        std::uint64_t stamp[kStamps];
        std::uint32_t n_nodes[kMaxRows], n_committed[kMaxRows];
        std::uint32_t path[kMaxRows], from[kMaxRows], to[kMaxRows];
        std::int32_t target[kMaxRows], token[kMaxRows];
        std::uint32_t n_moves;
        std::uint8_t parent[kMaxRows];
    };

    void collect(std::uint32_t sequence);

    cudaStream_t stream_;
    std::uint32_t ring_slots_;
    bool drafts_;
    std::uint32_t n_stamps_ = 0;
    PinnedArray<Input> input_host_;
    DeviceArray<Input> input_;
    DeviceArray<Output> output_;
    PinnedArray<Output> output_host_;
    PinnedArray<PassRows> rows_host_;  // of the target
    Event copied_;
    std::vector<WholeStepResult> results_;
    WholeStepTimes times_;
};

}  // namespace kimi::cuda
