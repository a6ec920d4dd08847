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
    CpuDraftAttention(const CpuKernels &kernels, ThreadPool &pool, const DeviceLimits &limits,
                      const HostHeap &heap);

    void write(DraftLayerRef layer, const DraftNorms &norms,
               std::span<const DraftSequence> sequences, Buffer k, Buffer v, Buffer rope);
    void attend(DraftLayerRef layer, const DraftNorms &norms,
                std::span<const DraftSequence> sequences, Buffer q, Buffer k, Buffer v, Buffer rope,
                Buffer out);
    // Bytes of context that attend reads.
    std::uint64_t context_bytes(DraftLayerRef layer,
                                std::span<const DraftSequence> sequences) const;

    // Memory of one page or ring in one layer of its kind.
    std::uint32_t n_full() const { return shape_.n_full; }
    std::uint32_t n_sliding() const { return shape_.n_sliding; }
    std::size_t page_bytes() const { return kPageTokens * token_bytes_; }
    std::uint32_t ring_slots() const { return shape_.ring_slots; }
    std::size_t ring_bytes() const { return shape_.ring_slots * token_bytes_; }
    std::byte *page(std::uint32_t layer, std::uint32_t page) const {
        return pages_.data() + (std::size_t{layer} * n_pages_ + page) * page_bytes();
    }
    std::byte *ring(std::uint32_t layer, std::uint32_t ring) const {
        return rings_.data() + (std::size_t{layer} * shape_.n_rings + ring) * ring_bytes();
    }
    // The bytes of one token's keys and values with the KV heads of all ranks.
    std::size_t whole_token_bytes() const {
        return shape_.n_kv_heads == 0 ? 0
                                      : token_bytes_ / shape_.n_kv_heads * shape_.whole_kv_heads;
    }
    // Calls f(piece, place, bytes) for what this rank has of n tokens from `mine` on, where all of
    // the model's begin at place `at`.
    template <typename F>
    void each_piece(std::byte *mine, std::uint32_t n, std::size_t at, const F &f) const {
        const std::size_t half = token_bytes_ / 2, head = half / shape_.n_kv_heads;
        for (std::uint32_t i = 0; i < 2 * n; ++i, mine += half, at += whole_token_bytes() / 2)
            f(mine, at + shape_.first_kv_head * head, half);
    }

  private:
    struct Scratch;
    struct Tile;

    std::uint32_t context_begin(DraftLayerRef layer, const DraftSequence &sequence) const;
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
