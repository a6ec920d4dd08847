// The latent KV cache in host memory: [layers, pages], a page being 64 tokens of kv_rank latents
// and rope values, or this device's part of them.
//
// bf16 and f32: [tokens, kv_rank + rope]. fp8: three planes, [tokens, kv_rank] e4m3, [tokens,
// kv_rank / 128] fp32 scales, [tokens, rope] bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/device.h"
#include "base/host_memory.h"

namespace kimi {

class CpuKvCache {
  public:
    CpuKvCache() = default;
    CpuKvCache(const CpuKernels &kernels, const KvShape &shape, const HostHeap &heap);

    const KvShape &shape() const { return shape_; }

    // Token `offset` of the held part of a page: kv_rank + rope fp32 values.
    void store(std::uint32_t layer, std::uint32_t page, std::uint32_t offset,
               const float *values) const;
    void load(std::uint32_t layer, std::uint32_t page, std::uint32_t offset, float *values) const;
    // The same in all layers as bytes: the token's part of each plane, layer by layer.
    void read(std::uint32_t page, std::uint32_t offset, std::byte *out) const;
    void write(std::uint32_t page, std::uint32_t offset, const std::byte *in) const;

    std::byte *page(std::uint32_t layer, std::uint32_t page) const {
        return memory_.data() + (std::size_t{layer} * shape_.n_pages + page) * shape_.page_bytes();
    }

    // Bytes of a token in each plane of a page; 0: no such plane.
    struct Planes {
        std::size_t bytes[3];
    };
    Planes planes() const;

  private:
    // Where the parts of a token lie in its page.
    struct Parts {
        std::byte *latent, *scales, *rope;
    };
    Parts parts(std::byte *page, std::uint32_t offset) const;
    // Calls f(bytes, n) for the token's part of each plane of each layer.
    template <typename F>
    void each_part(std::uint32_t page, std::uint32_t offset, const F &f) const;

    const CpuKernels *k_ = nullptr;
    KvShape shape_;
    HostMemory memory_;
};

}  // namespace kimi
