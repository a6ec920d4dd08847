// The latent KV cache in host memory: [layers, pages, 64 tokens, kv_rank + rope].
#pragma once

#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/device.h"
#include "base/host_memory.h"

namespace kimi {

class CpuKvCache {
  public:
    CpuKvCache() = default;
    explicit CpuKvCache(const KvShape &shape)
        : shape_(shape),
          memory_(std::size_t{shape.n_layers} * shape.n_pages * shape.page_bytes(),
                  "the KV cache") {}

    const KvShape &shape() const { return shape_; }
    std::uint32_t dim() const { return shape_.kv_rank + shape_.rope_dim; }

    // The entry of slot `slot` of the sequence with these pages.
    std::byte *entry(std::uint32_t layer, std::span<const std::uint32_t> pages,
                     std::uint32_t slot) const {
        const std::size_t page = std::size_t{layer} * shape_.n_pages + pages[slot / kPageTokens];
        return memory_.data() + page * shape_.page_bytes() +
               slot % kPageTokens * shape_.token_bytes();
    }
    void store(const CpuKernels &k, const float *values, std::byte *entry) const {
        if (shape_.type == KvType::bf16) {
            k.narrow(values, dim(), entry);
        } else {
            std::memcpy(entry, values, dim() * sizeof(float));
        }
    }
    void load(const CpuKernels &k, const std::byte *entry, float *values) const {
        if (shape_.type == KvType::bf16) {
            k.widen(entry, dim(), values);
        } else {
            std::memcpy(values, entry, dim() * sizeof(float));
        }
    }
    void move(std::span<const std::uint32_t> pages, std::uint32_t from, std::uint32_t to) const {
        for (std::uint32_t layer = 0; layer < shape_.n_layers; ++layer)
            std::memmove(entry(layer, pages, to), entry(layer, pages, from), shape_.token_bytes());
    }

  private:
    KvShape shape_;
    HostMemory memory_;
};

}  // namespace kimi
