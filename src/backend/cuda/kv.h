// The KV memory of one GPU: the target's pages, and the drafter's pages and rings.
#pragma once

#include <span>

#include "backend/cuda/memory.h"
#include "backend/cuda/stream.h"
#include "backend/device.h"
#include "base/bf16.h"
#include "kernels/kv_layout.h"

namespace kimi::cuda {

class CudaKv {
  public:
    CudaKv(const KvShape &shape, const DraftShape &draft, cudaStream_t stream);

    const KvShape &shape() const { return shape_; }
    bool fp8() const { return shape_.type == KvType::fp8; }
    bool in_shards() const { return shape_.n_shards > 1; }
    KvShard shard() const;
    // Of a layer.
    std::uint8_t *pages(std::uint32_t layer) const { return pages_.at(layer); }
    // In shards, what a pass writes, as a whole page: row r as token r. Otherwise null.
    std::uint8_t *fresh(std::uint32_t layer) const {
        return in_shards() ? fresh_.at(layer) : nullptr;
    }
    bf16 *draft(DraftLayerRef layer) const {
        return reinterpret_cast<bf16 *>((layer.sliding ? rings_ : draft_pages_).at(layer.index));
    }

    // As KvMemory says. What they enqueue runs behind the passes; reads and writes wait for it.
    // move_slots() is for whole pages.
    void move_slots(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> from,
                    std::span<const std::uint32_t> to);
    // The same of cells, by a list on the device that has at most max_moves: in shards
    // kv_commit.h's, from rows of the pass, otherwise kv_compact.h's.
    void compact(const std::uint32_t *n_moves, const std::uint32_t *from, const std::uint32_t *to,
                 std::uint32_t max_moves) const;
    // One slot of the target in all layers, which the GPU holds.
    void read_slot(std::uint32_t page, std::uint32_t offset, std::byte *out);
    void write_slot(std::uint32_t page, std::uint32_t offset, const std::byte *in);
    std::size_t page_bytes() const;
    std::size_t ring_bytes() const;
    void copy_page(std::uint32_t from, std::uint32_t to);
    void copy_ring(std::uint32_t from, std::uint32_t to);
    void read_page(std::uint32_t page, std::byte *out);
    void write_page(std::uint32_t page, const std::byte *in);
    void read_ring(std::uint32_t ring, std::byte *out);
    void write_ring(std::uint32_t ring, const std::byte *in);

  private:
    // [layers, units], a unit being a page or a ring.
    struct Pool {
        Pool() = default;
        Pool(std::uint32_t n_layers, std::uint32_t n_units, std::size_t unit_bytes,
             cudaStream_t stream);

        std::uint32_t n_layers = 0;
        std::size_t unit_bytes = 0, layer_bytes = 0;
        DeviceArray<std::uint8_t> memory;

        std::uint8_t *at(std::uint32_t layer) const { return memory.data() + layer * layer_bytes; }
        std::uint8_t *at(std::uint32_t layer, std::uint32_t unit) const {
            return at(layer) + unit * unit_bytes;
        }
    };

    void transfer_slot(std::uint32_t page, std::uint32_t offset, std::byte *slot,
                       cudaMemcpyKind direction);
    // Tokens [first, first + n) of what the GPU has of a page, in all layers. The host's page has
    // host_tokens, of which these begin at host_first.
    void transfer_tokens(std::uint32_t page, std::uint32_t first, std::uint32_t n, std::byte *host,
                         std::uint32_t host_tokens, std::uint32_t host_first,
                         cudaMemcpyKind direction);
    std::size_t draft_token_bytes() const;  // with the KV heads of all ranks
    void copy_unit(const Pool &pool, std::uint32_t from, std::uint32_t to);
    // Between a unit of the drafter and a byte string with the heads of all ranks.
    void transfer(std::uint8_t *mine, std::uint32_t n_tokens, std::byte *whole,
                  cudaMemcpyKind direction);
    void transfer(const Pool &pool, std::uint32_t unit, std::uint32_t n_tokens, std::byte *whole,
                  cudaMemcpyKind direction);
    void transfer_page(std::uint32_t page, std::byte *whole, cudaMemcpyKind direction);

    KvShape shape_;
    DraftShape draft_;
    cudaStream_t stream_;
    Pool pages_, fresh_, draft_pages_, rings_;
    PinnedArray<std::uint32_t> moves_host_;  // n, from, to
    DeviceArray<std::uint32_t> moves_;
    Event moved_;
};

}  // namespace kimi::cuda
