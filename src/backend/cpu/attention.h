// Absorbed attention over the paged latents, on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/kv_cache.h"
#include "backend/device.h"
#include "base/host_memory.h"
#include "base/thread_pool.h"

namespace kimi {

// The context of a row is cut at multiples of kSplitTokens. Each split is reduced by itself over
// tiles of one page (online softmax), then the splits are merged in order. Borders and order depend
// on the row's own context only, so that its bits are the same in any company; whether splits run
// in parallel or one after the other is a matter of scheduling.
class CpuAttention {
  public:
    static constexpr std::uint32_t kSplitTokens = 1024;

    CpuAttention() = default;
    CpuAttention(const CpuKernels &kernels, ThreadPool &pool, const DeviceLimits &limits);

    // queries [rows, heads, kv_rank + rope] -> out [rows, heads, kv_rank].
    void run(std::uint32_t layer, const CpuKvCache &kv, const MlaShape &shape, const StepPlan &plan,
             const float *queries, float *out);

  private:
    // Rows of one sequence that walk over the pages together.
    struct Block {
        const PlanSequence *sequence;
        std::uint32_t first_row, n_rows, n_splits;
    };
    // Unnormalised outputs [queries, kv_rank], maxima and sums [queries] over a part of the
    // context.
    struct Partial {
        float *out, *max, *sum;
    };
    struct Scratch {
        float *keys;    // [64, dim]
        float *scores;  // [queries, 64]
        Partial split, total;
    };
    struct Pass {
        std::uint32_t layer;
        const CpuKvCache &kv;
        const MlaShape &shape;
        const StepPlan &plan;
        const float *queries;
        float *out;
    };

    void make_blocks(const StepPlan &plan);
    Partial partial_at(float *memory) const;
    Scratch scratch(unsigned thread) const;
    void attend_split(const Pass &pass, const Block &block, std::uint32_t split, const Scratch &s,
                      const Partial &out) const;
    void attend_tile(const Pass &pass, const Block &block, std::uint32_t tile, const Scratch &s,
                     const Partial &out) const;
    void attend_rows(const Pass &pass, const Block &block, std::uint32_t row, std::uint32_t n_rows,
                     std::uint32_t tile, const Scratch &s, const Partial &out) const;
    void merge(std::uint32_t n_queries, const Partial &total, const Partial &part) const;
    void finish(const Pass &pass, const Block &block, const Partial &total) const;

    const CpuKernels *k_ = nullptr;
    ThreadPool *pool_ = nullptr;
    std::uint32_t dim_ = 0, kv_rank_ = 0, n_heads_ = 0;
    std::uint32_t rows_per_block_ = 0, max_queries_ = 0, max_splits_ = 0;
    std::vector<Block> blocks_;
    std::size_t scratch_floats_ = 0, partial_floats_ = 0;
    HostMemory scratch_;   // [threads, scratch_floats_]
    HostMemory partials_;  // [blocks that run in parallel, splits, partial_floats_]
};

}  // namespace kimi
