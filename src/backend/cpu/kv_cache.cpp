#include "backend/cpu/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/fp8.h"

namespace kimi {
namespace {

// e4m3 codes and the scale that makes the largest of n values 448.
void quantize(const float *values, std::uint32_t n, std::byte *codes, float *scale) {
    float largest = 0;
    for (std::uint32_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(values[i]));
    *scale = largest > 0 ? largest / kE4m3Max : 1.0f;
    // A NaN among the values must not get lost.
    for (std::uint32_t i = 0; i < n; ++i) codes[i] = std::byte{to_e4m3(values[i] / *scale)};
}

}  // namespace

CpuKvCache::CpuKvCache(const CpuKernels &kernels, const KvShape &shape, const HostHeap &heap)
    : k_(&kernels),
      shape_(shape),
      memory_(heap, std::size_t{shape.n_layers} * shape.n_pages * shape.page_bytes(),
              "the KV cache") {}

CpuKvCache::Planes CpuKvCache::planes() const {
    if (shape_.type != KvType::fp8) return {{shape_.token_bytes(), 0, 0}};
    return {{shape_.kv_rank, shape_.kv_rank / kFp8Group * sizeof(float),
             std::size_t{shape_.rope_dim} * 2}};
}

CpuKvCache::Parts CpuKvCache::parts(std::byte *page, std::uint32_t offset) const {
    const auto [latent, scales, rope] = planes().bytes;
    const std::size_t n = shape_.page_tokens();
    std::byte *scale_plane = page + n * latent, *rope_plane = scale_plane + n * scales;
    return {page + offset * latent, scale_plane + offset * scales, rope_plane + offset * rope};
}

void CpuKvCache::store(std::uint32_t layer, std::uint32_t page_id, std::uint32_t offset,
                       const float *values) const {
    std::byte *to = page(layer, page_id);
    const std::uint32_t dim = shape_.kv_rank + shape_.rope_dim;
    switch (shape_.type) {
        case KvType::bf16:
            k_->narrow(values, dim, to + offset * shape_.token_bytes());
            break;
        case KvType::f32:
            std::memcpy(to + offset * shape_.token_bytes(), values, dim * sizeof(float));
            break;
        case KvType::fp8: {
            const Parts p = parts(to, offset);
            for (std::uint32_t group = 0; group < shape_.kv_rank / kFp8Group; ++group) {
                float scale;
                quantize(values + group * kFp8Group, kFp8Group, p.latent + group * kFp8Group,
                         &scale);
                std::memcpy(p.scales + group * sizeof scale, &scale, sizeof scale);
            }
            k_->narrow(values + shape_.kv_rank, shape_.rope_dim, p.rope);
        }
    }
}

void CpuKvCache::load(std::uint32_t layer, std::uint32_t page_id, std::uint32_t offset,
                      float *values) const {
    std::byte *from = page(layer, page_id);
    const std::uint32_t dim = shape_.kv_rank + shape_.rope_dim;
    switch (shape_.type) {
        case KvType::bf16:
            k_->widen(from + offset * shape_.token_bytes(), dim, values);
            break;
        case KvType::f32:
            std::memcpy(values, from + offset * shape_.token_bytes(), dim * sizeof(float));
            break;
        case KvType::fp8: {
            const Parts p = parts(from, offset);
            for (std::uint32_t group = 0; group < shape_.kv_rank / kFp8Group; ++group) {
                float scale;
                std::memcpy(&scale, p.scales + group * sizeof scale, sizeof scale);
                k_->widen_e4m3(p.latent + group * kFp8Group, kFp8Group, scale,
                               values + group * kFp8Group);
            }
            k_->widen(p.rope, shape_.rope_dim, values + shape_.kv_rank);
        }
    }
}

template <typename F>
void CpuKvCache::each_part(std::uint32_t page_id, std::uint32_t offset, const F &f) const {
    for (std::uint32_t layer = 0; layer < shape_.n_layers; ++layer) {
        std::byte *plane = page(layer, page_id);
        for (const std::size_t n : planes().bytes) {
            f(plane + offset * n, n);
            plane += shape_.page_tokens() * n;
        }
    }
}

void CpuKvCache::read(std::uint32_t page, std::uint32_t offset, std::byte *out) const {
    each_part(page, offset, [&](const std::byte *part, std::size_t n) {
        std::memcpy(out, part, n);
        out += n;
    });
}

void CpuKvCache::write(std::uint32_t page, std::uint32_t offset, const std::byte *in) const {
    each_part(page, offset, [&](std::byte *part, std::size_t n) {
        std::memcpy(part, in, n);
        in += n;
    });
}

}  // namespace kimi
