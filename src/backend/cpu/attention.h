// Absorbed attention over the paged latents, on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/kv_cache.h"
#include "backend/device.h"
#include "base/host_memory.h"
#include "base/thread_pool.h"

namespace kimi {

// The context of a row is cut at multiples of kSplitTokens. Each split is reduced by itself over
// tiles of 64 positions (online softmax), then the splits are merged in order. Positions count
// along the row's own path: a tree row reads its ancestors in depth order, as if they were stored
// one after the other behind the prefix. So borders and order depend on the row's own context only,
// and its bits are the same in any company; which rows share a block, and whether splits run in
// parallel or one after the other, is a matter of scheduling.
//
// Where the device holds a part of every page, positions are counted among those it holds, in their
// order, and a row's part of the context by the positions along its path: a tree row's by the slots
// where a plain one would find its ancestors, so that it has the same bits. The ancestors
// themselves are in every rank's cache of the pass.
class CpuAttention {
  public:
    static constexpr std::uint32_t kSplitTokens = 1024;

    CpuAttention() = default;
    CpuAttention(const CpuKernels &kernels, ThreadPool &pool, const DeviceLimits &limits,
                 const HostHeap &heap);

    // Unnormalised outputs [queries, kv_rank], maxima and sums [queries] over a part of the
    // context. Where the sum is 0, it is empty and the rest has no meaning.
    struct Partial {
        float *out = nullptr, *max = nullptr, *sum = nullptr;
    };

    // queries [rows, heads, kv_rank + rope] over what `kv` holds -> out of [rows, heads].
    // `pass_kv` has the rows of the pass.
    void run(std::uint32_t layer, const CpuKvCache &kv, const CpuKvCache &pass_kv,
             const MlaShape &shape, const StepPlan &plan, const float *queries, const Partial &out);
    // Merges results over parts of the context, in order, and normalises their sum, for the heads
    // [first_head, first_head + n_heads). to.out, which may be one of the parts', gets it.
    void combine(std::span<const Partial *const> parts, std::uint32_t first_head,
                 std::uint32_t n_heads, std::uint32_t n_rows, const Partial &to);

  private:
    // What a row sees of what the device holds: the first `base` positions, then the rows j of its
    // sequence in the pass for the bits j of path. Paths without gaps are part of the prefix.
    struct Row {
        std::uint32_t base;
        std::uint64_t path;

        std::uint32_t context() const;
    };
    // Rows of one sequence that walk over the pages together.
    struct Block {
        std::span<const std::uint32_t> pages;
        std::uint32_t root;  // row of the sequence
        std::uint32_t first_row, n_rows, n_splits;
    };
    struct Scratch {
        float *keys, *tree_keys;      // [64, dim] of the tile's prefix, of the tree's slots
        float *scores, *tree_scores;  // [queries, 64]
        Partial split, total;
    };
    struct Pass {
        std::uint32_t layer;
        const CpuKvCache &kv, &pass_kv;
        const MlaShape &shape;
        const float *queries;
        const Partial &out;
    };

    void make_rows(const StepPlan &plan, const KvShape &kv);
    void make_blocks(const StepPlan &plan, const KvShape &kv);
    Partial partial_at(float *memory) const;
    Scratch scratch(unsigned thread) const;
    template <typename Load>
    std::uint32_t stage(std::uint32_t n, float *keys, const Load &load) const;
    void attend_split(const Pass &pass, const Block &block, std::uint32_t split, const Scratch &s,
                      const Partial &out) const;
    void attend_tile(const Pass &pass, const Block &block, std::uint32_t tile, const Scratch &s,
                     const Partial &out) const;
    float softmax(const Row &row, std::uint32_t tile, float *scores, float *tree_scores, float *max,
                  float *sum) const;
    Partial at(const Partial &partial, std::size_t query) const;
    void merge(std::uint32_t n_queries, const Partial &total, const Partial &part) const;
    void finish(const Pass &pass, const Block &block, const Partial &total) const;

    const CpuKernels *k_ = nullptr;
    ThreadPool *pool_ = nullptr;
    std::uint32_t dim_ = 0, kv_rank_ = 0, n_heads_ = 0;
    std::uint32_t rows_per_block_ = 0, max_queries_ = 0, max_splits_ = 0;
    std::vector<Row> rows_;
    std::vector<Block> blocks_;
    std::size_t scratch_floats_ = 0, partial_floats_ = 0;
    HostMemory scratch_;   // [threads, scratch_floats_]
    HostMemory partials_;  // [blocks that run in parallel, splits, partial_floats_]
};

}  // namespace kimi
