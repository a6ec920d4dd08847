// The drafter's attention and KV cache on the CPU.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/kernels.h"
#include "backend/device.h"
#include "base/host_memory.h"
#include "base/thread_pool.h"

namespace kimi {

class CpuDraftAttention {
  public:
    CpuDraftAttention() = default;
    CpuDraftAttention(const CpuKernels &kernels, ThreadPool &pool, const DeviceLimits &limits);

    void write(DraftLayerRef layer, const DraftNorms &norms,
               std::span<const DraftSequence> sequences, Buffer k, Buffer v, Buffer rope);
    void attend(DraftLayerRef layer, const DraftNorms &norms,
                std::span<const DraftSequence> sequences, Buffer q, Buffer k, Buffer v, Buffer rope,
                Buffer out);

  private:
    struct Scratch;
    struct Tile;

    std::byte *entry(DraftLayerRef layer, const DraftSequence &sequence,
                     std::uint32_t position) const;
    void normalise_rotate(const Vector &norm, float eps, std::uint32_t n_heads, float *row,
                          const float *rope) const;
    Scratch scratch(unsigned thread) const;
    void load(const std::byte *entry, std::uint32_t head, float *key, float *value) const;
    void attend_head(DraftLayerRef layer, const DraftSequence &sequence, std::uint32_t kv_head,
                     Buffer q, Buffer k, Buffer v, const Scratch &s, Buffer out) const;
    void reduce_tile(const DraftSequence &sequence, const Tile &tile, const Scratch &s) const;

    const CpuKernels *k_ = nullptr;
    ThreadPool *pool_ = nullptr;
    DraftShape shape_;
    KvType type_ = KvType::bf16;
    std::uint32_t n_pages_ = 0, group_ = 0, max_queries_ = 0;
    std::size_t token_bytes_ = 0, scratch_floats_ = 0;
    HostMemory pages_;    // [full layers, pages, 64, keys | values]
    HostMemory rings_;    // [sliding layers, rings, slots, keys | values]
    HostMemory scratch_;  // [threads, scratch_floats_]
};

}  // namespace kimi
