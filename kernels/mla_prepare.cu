// blockIdx.y is the row. Block 0 of a row writes its KV, 4 latents per thread, so that a warp has
// the 128 latents of a scale; the others rotate queries, a pair per thread.
#include "kernels/mla_prepare.h"

#include "base/error.h"
#include "kernels/reduce.h"

namespace kimi {
namespace {

using namespace simt;

constexpr int kThreads = 128, kPairs = kMlaRope / 2;
static_assert(kMlaLatent == 4 * kThreads && kMlaLatent / kMlaFp8Groups == 4 * 32);

__device__ __forceinline__ float2 rotated(const MlaPrepareParams &p, std::uint32_t row, int pair,
                                          float2 v) {
    const Global<const float> table = p.rope + std::int64_t{row} * kMlaRope;
    const float cos = table[pair], sin = table[kPairs + pair];
    return {v.x * cos - v.y * sin, v.y * cos + v.x * sin};
}

__device__ __forceinline__ void write_kv(const MlaPrepareParams &p, std::uint32_t row) {
    KIMI_SHARED(float, scratch, 32);
    const int i = static_cast<int>(threadIdx.x);
    const Global<const float> kv = p.kv + std::int64_t{row} * kMlaDim;
    float4 v = load_readonly<float4>(kv + 4 * i);
    const auto pairs = load_readonly<uint2>(p.norm + 4 * i);
    const auto add = [](float a, float b) { return a + b; };
    const float squares = fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w);
    const float mean = block_reduce(squares, 0.0F, scratch, add) / static_cast<float>(kMlaLatent);
    const float factor = 1.0F / sqrtf(mean + p.eps);
    const float2 a = unpack_bf16(pairs.x), b = unpack_bf16(pairs.y);
    v = {v.x * factor * a.x, v.y * factor * a.y, v.z * factor * b.x, v.w * factor * b.y};

    const std::uint32_t cell = p.cell[row];
    const std::int64_t page = cell / kMlaPageTokens;
    const int offset = static_cast<int>(cell % kMlaPageTokens);
    Global<std::uint8_t> latent, rope;
    if (p.fp8) {
        const Global<std::uint8_t> at = p.pages + page * MlaFp8Page::kBytes;
        latent = at + offset * MlaFp8Page::kLatentBytes;
        rope = at + (MlaFp8Page::kRope + offset * MlaFp8Page::kRopeBytes);
        const auto larger = [](float x, float y) { return fmaxf(x, y); };
        const float largest = warp_reduce(
            fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))), larger);
        const float scale = largest > 0 ? largest / 448.0F : 1.0F;
        const std::uint32_t low = pack_e4m3(v.x / scale, v.y / scale),
                            high = pack_e4m3(v.z / scale, v.w / scale);
        store(latent + 4 * i, low | high << 16);
        if (i % 32 == 0) {
            store(at + (MlaFp8Page::kScales + offset * MlaFp8Page::kScaleBytes + i / 32 * 4),
                  scale);
        }
    } else {
        latent = p.pages + (page * MlaBf16Page::kBytes + offset * MlaBf16Page::kTokenBytes);
        rope = latent + 2 * kMlaLatent;
        store(latent + 8 * i, uint2{pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)});
    }
    if (i < kPairs) {
        const float2 r = rotated(p, row, i, load_readonly<float2>(kv + (kMlaLatent + 2 * i)));
        store(rope + 4 * i, pack_bf16(r.x, r.y));
    }
}

__global__ void __launch_bounds__(kThreads) mla_prepare_kernel(MlaPrepareParams p) {
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t row = blockIdx.y;
    if (row >= p.n_rows[0]) return;
    if (blockIdx.x == 0) {
        write_kv(p, row);
        return;
    }
    const int at = static_cast<int>((blockIdx.x - 1) * kThreads + threadIdx.x), head = at / kPairs,
              pair = at % kPairs;
    const int n_heads = static_cast<int>(p.n_heads), nope = static_cast<int>(p.nope);
    if (head >= n_heads) return;
    const std::int64_t query = std::int64_t{row} * n_heads + head;
    const float2 v = unpack_bf16(
        load_readonly<std::uint32_t>(p.q + (query * (nope + kMlaRope) + nope + 2 * pair)));
    const float2 r = rotated(p, row, pair, v);
    store(p.q_absorbed + (query * kMlaDim + kMlaLatent + 2 * pair), pack_bf16(r.x, r.y));
}

}  // namespace

void mla_prepare(const MlaPrepareParams &p, Stream stream) {
    KIMI_CHECK(p.nope % 2 == 0);
    if (p.max_rows == 0) return;
    launch({.name = "mla_prepare",
            .grid = {1 + (p.n_heads * kPairs + kThreads - 1) / kThreads, p.max_rows},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           mla_prepare_kernel, p);
}

}  // namespace kimi
