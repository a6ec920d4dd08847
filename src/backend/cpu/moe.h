// Routed experts on the CPU: the tokens of a pass are grouped by expert, and every weight row is
// read once for all tokens that use it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/device.h"
#include "base/host_memory.h"
#include "base/thread_pool.h"

namespace kimi {

// Writes the ids and weights of the top_k experts of one row of router logits. The ids are distinct
// for any input, NaN included.
void route(const RouterShape &shape, const float *logits, const float *bias, std::uint32_t *ids,
           float *weights);

class CpuMoe {
  public:
    // The rows that chose an expert: (row, choice) pairs, which lie together.
    struct Group {
        std::uint32_t expert, first, n;
    };

    CpuMoe() = default;
    CpuMoe(const CpuKernels &kernels, ThreadPool &pool, const DeviceLimits &limits,
           const HostHeap &heap);

    // y += the weighted sum of the experts
    void run(const RouterShape &shape, Buffer logits, const float *bias,
             std::span<const Expert> experts, std::span<const std::uint32_t> position, Buffer x,
             Buffer y);
    // Of the last run.
    std::span<const Group> groups() const { return groups_; }

  private:
    static constexpr std::uint32_t kElsewhere = UINT32_MAX;

    void group_pairs(const RouterShape &shape, std::span<const Expert> experts,
                     std::span<const std::uint32_t> position);
    void gate_up(const Expert &expert, const Group &group, std::uint32_t begin);
    float *row(const HostMemory &memory, std::uint32_t index, std::uint32_t width) const {
        return memory.floats() + std::size_t{index} * width;
    }

    const CpuKernels *k_ = nullptr;
    ThreadPool *pool_ = nullptr;
    std::uint32_t hidden_ = 0;
    std::uint32_t padded_hidden_ = 0, width_ = 0;  // rounded up to whole int4 blocks
    // [rows, top_k]: expert; place among the sorted pairs, or kElsewhere
    std::vector<std::uint32_t> ids_, pair_of_;
    std::vector<float> weights_;        // [rows, top_k]
    std::vector<std::uint32_t> begin_;  // [experts + 1]
    std::vector<Group> groups_;
    HostMemory x_;                // [rows, hidden] in int4 order
    HostMemory gate_, up_, act_;  // [pairs, width]; act_ in int4 order
    HostMemory down_;             // [pairs, hidden]
    std::vector<const float *> natural_in_, permuted_in_, natural_act_, permuted_act_;  // [pairs]
    std::vector<float *> gate_out_, up_out_, down_out_;                                 // [pairs]
};

}  // namespace kimi
