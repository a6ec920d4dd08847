// The latent KV cache in host memory: [layers, pages], a page being 64 tokens of kv_rank latents
// and rope values.
//
// bf16 and f32: [64, kv_rank + rope]. fp8: three planes, [64, kv_rank] e4m3, [64, kv_rank / 128]
// fp32 scales, [64, rope] bf16.
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
    CpuKvCache(const CpuKernels &kernels, const KvShape &shape);

    const KvShape &shape() const { return shape_; }

    // Token `offset` of a page: kv_rank + rope fp32 values.
    void store(std::uint32_t layer, std::uint32_t page, std::uint32_t offset,
               const float *values) const;
    void load(std::uint32_t layer, std::uint32_t page, std::uint32_t offset, float *values) const;
    // Copies one token to another place, all layers.
    void move(std::uint32_t from_page, std::uint32_t from, std::uint32_t to_page,
              std::uint32_t to) const;

    std::byte *page(std::uint32_t layer, std::uint32_t page) const {
        return memory_.data() + (std::size_t{layer} * shape_.n_pages + page) * shape_.page_bytes();
    }

  private:
    // Where the parts of a token lie in its page.
    struct Parts {
        std::byte *latent, *scales, *rope;
    };
    Parts parts(std::byte *page, std::uint32_t offset) const;

    const CpuKernels *k_ = nullptr;
    KvShape shape_;
    HostMemory memory_;
};

}  // namespace kimi
