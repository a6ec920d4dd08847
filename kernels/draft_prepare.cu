// A warp makes one head of one row: its queries, its keys, or a copy of its values.
#include "kernels/draft_prepare.h"

#include "base/error.h"
#include "kernels/reduce.h"

namespace kimi {
namespace {

using namespace simt;

constexpr std::uint32_t kWarps = 4, kMaxPairs = 2;  // pairs per lane

__device__ __forceinline__ void prepare_head(const DraftPrepareParams &p, std::uint32_t row,
                                             Global<const float> from, Global<const bf16> norm,
                                             Global<bf16> to) {
    const std::uint32_t half = p.dim / 2, lane = threadIdx.x % 32;
    float2 v[kMaxPairs];
    float squares = 0;
#pragma unroll
    for (std::uint32_t j = 0; j < kMaxPairs; ++j) {
        const std::uint32_t i = lane + 32 * j;
        v[j] = {0, 0};
        if (i < half) {
            const float a = from[i], b = from[half + i];
            v[j] = {a, b};
        }
        squares = fmaf(v[j].x, v[j].x, fmaf(v[j].y, v[j].y, squares));
    }
    squares = warp_reduce(squares, [](float a, float b) { return a + b; });
    const float factor = 1.0F / sqrtf(squares / static_cast<float>(p.dim) + p.eps);
    const Global<const float> rope = p.rope + std::int64_t{row} * p.dim;
#pragma unroll
    for (std::uint32_t j = 0; j < kMaxPairs; ++j) {
        const std::uint32_t i = lane + 32 * j;
        if (i >= half) continue;
        const float a = v[j].x * factor * bf16_to_float(norm[i]),
                    b = v[j].y * factor * bf16_to_float(norm[half + i]);
        const float cos = rope[i], sin = rope[half + i];
        to[i] = float_to_bf16(a * cos - b * sin);
        to[half + i] = float_to_bf16(b * cos + a * sin);
    }
}

__global__ void __launch_bounds__(32 * kWarps) draft_prepare_kernel(DraftPrepareParams p) {
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t row = blockIdx.y;
    if (row >= p.n_rows[0]) return;
    std::uint32_t entry = row;
    if (p.entry) entry = p.entry[row];
    const std::uint32_t n_queries = p.q ? p.n_heads : 0;
    std::uint32_t head = blockIdx.x * kWarps + threadIdx.x / 32;
    if (head < n_queries) {
        const std::int64_t at = (std::int64_t{row} * p.n_heads + head) * p.dim;
        prepare_head(p, row, p.q + at, p.q_norm, p.q_out + at);
        return;
    }
    head -= n_queries;
    const bool keys = head < p.n_kv_heads;
    if (!keys) head -= p.n_kv_heads;
    if (head >= p.n_kv_heads) return;
    const std::int64_t from = (std::int64_t{row} * p.n_kv_heads + head) * p.dim;
    const std::int64_t to =
        ((std::int64_t{entry} * 2 + (keys ? 0 : 1)) * p.n_kv_heads + head) * p.dim;
    if (keys) {
        prepare_head(p, row, p.k + from, p.k_norm, p.entries + to);
        return;
    }
    for (std::uint32_t i = 2 * (threadIdx.x % 32); i < p.dim; i += 64) {
        const float2 v = load_readonly<float2>(p.v + (from + i));
        store(p.entries + (to + i), pack_bf16(v.x, v.y));
    }
}

}  // namespace

void draft_prepare(const DraftPrepareParams &p, Stream stream) {
    KIMI_CHECK(p.dim % 2 == 0 && p.dim <= 64 * kMaxPairs);
    if (p.max_rows == 0) return;
    const std::uint32_t heads = (p.q ? p.n_heads : 0) + 2 * p.n_kv_heads;
    launch({.name = "draft_prepare",
            .grid = {(heads + kWarps - 1) / kWarps, p.max_rows},
            .block = {32 * kWarps},
            .stream = stream,
            .dependent = true},
           draft_prepare_kernel, p);
}

}  // namespace kimi
