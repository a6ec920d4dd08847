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

CpuKvCache::CpuKvCache(const CpuKernels &kernels, const KvShape &shape)
    : k_(&kernels),
      shape_(shape),
      memory_(std::size_t{shape.n_layers} * shape.n_pages * shape.page_bytes(), "the KV cache") {}

CpuKvCache::Parts CpuKvCache::parts(std::byte *page, std::uint32_t offset) const {
    const std::size_t latent = std::size_t{kPageTokens} * shape_.kv_rank;
    const std::uint32_t n_scales = shape_.kv_rank / kFp8Group;
    std::byte *scales = page + latent, *rope = scales + std::size_t{kPageTokens} * n_scales * 4;
    return {page + std::size_t{offset} * shape_.kv_rank,
            scales + std::size_t{offset} * n_scales * 4,
            rope + std::size_t{offset} * shape_.rope_dim * 2};
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

void CpuKvCache::move(std::uint32_t from_page, std::uint32_t from, std::uint32_t to_page,
                      std::uint32_t to) const {
    for (std::uint32_t layer = 0; layer < shape_.n_layers; ++layer) {
        std::byte *source = page(layer, from_page), *target = page(layer, to_page);
        if (shape_.type != KvType::fp8) {
            const std::size_t n = shape_.token_bytes();
            std::memcpy(target + to * n, source + from * n, n);
            continue;
        }
        const Parts a = parts(source, from), b = parts(target, to);
        std::memcpy(b.latent, a.latent, shape_.kv_rank);
        std::memcpy(b.scales, a.scales, shape_.kv_rank / kFp8Group * sizeof(float));
        std::memcpy(b.rope, a.rope, std::size_t{shape_.rope_dim} * 2);
    }
}

}  // namespace kimi
