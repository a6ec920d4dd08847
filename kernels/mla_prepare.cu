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

// What a thread has of a token: latents 4 i to 4 i + 3, and in the first threads a rotated pair.
struct Values {
    float4 latent;
    float2 rope;
    float scale;  // fp8: of the warp's latents
};

// As token `offset` of a page of so many.
__device__ __forceinline__ void store_token(Global<std::uint8_t> page, std::uint32_t tokens,
                                            std::uint32_t offset, bool fp8, const Values &v) {
    using Page = MlaFp8Page;
    const int i = static_cast<int>(threadIdx.x);
    Global<std::uint8_t> rope;
    if (fp8) {
        const Global<std::uint8_t> scales = page + tokens * Page::kLatentBytes;
        rope = scales + (tokens * Page::kScaleBytes + offset * Page::kRopeBytes);
        const std::uint32_t low = pack_e4m3(v.latent.x / v.scale, v.latent.y / v.scale),
                            high = pack_e4m3(v.latent.z / v.scale, v.latent.w / v.scale);
        store(page + (offset * Page::kLatentBytes + 4 * i), low | high << 16);
        if (i % 32 == 0) store(scales + (offset * Page::kScaleBytes + i / 32 * 4), v.scale);
    } else {
        const Global<std::uint8_t> latent = page + offset * MlaBf16Page::kTokenBytes;
        rope = latent + 2 * kMlaLatent;
        store(latent + 8 * i,
              uint2{pack_bf16(v.latent.x, v.latent.y), pack_bf16(v.latent.z, v.latent.w)});
    }
    if (i < kPairs) store(rope + 4 * i, pack_bf16(v.rope.x, v.rope.y));
}

__device__ __forceinline__ float scale_of(float4 v) {
    const auto larger = [](float x, float y) { return fmaxf(x, y); };
    const float largest =
        warp_reduce(fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))), larger);
    return largest > 0 ? largest / 448.0F : 1.0F;
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

    Values values = {v, {}, p.fp8 ? scale_of(v) : 1.0F};
    if (i < kPairs)
        values.rope = rotated(p, row, i, load_readonly<float2>(kv + (kMlaLatent + 2 * i)));
    const std::uint32_t cell = p.cell[row], tokens = p.shard.tokens();
    const std::int64_t page_bytes =
        std::int64_t{tokens} * (p.fp8 ? MlaFp8Page::kTokenBytes : MlaBf16Page::kTokenBytes);
    if (p.shard.holds(cell)) {
        store_token(p.pages + cell / kMlaPageTokens * page_bytes, tokens, cell % tokens, p.fp8,
                    values);
    }
    if (p.fresh) store_token(p.fresh, kMlaPageTokens, row, p.fp8, values);
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
