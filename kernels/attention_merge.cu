// out = sum over parts of 2^(lse_i - max) out_i / sum of 2^(lse_i - max); lse = max + log2 of that
// sum.
//
//   parts fp32 [parts, rows, heads, dim] -> bf16 or fp32 [rows, heads, dim]. sm_90, sm_120.
//
// A block merges 128 values of one query; warp w adds the parts w, w + 4, ..., then the four sums
// are added in order. So the result depends on the number of parts only. Bytes that must move: 4
// (dim + 1) per part and query in (L2), 2 dim out. Shared memory 2.1 KB static.
#include "kernels/attention_merge.h"

#include <cmath>

#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr int kWarps = 4, kThreads = 32 * kWarps, kChunk = 128;

// Which of the merged queries it becomes.
__device__ __forceinline__ std::int64_t place_of(const AttentionMergeParams &p, int row, int head) {
    const int heads = p.group_heads > 0 ? p.group_heads : p.n_heads;
    return (std::int64_t{head / heads} * p.row_capacity + row) * heads + head % heads;
}

__global__ void __launch_bounds__(kThreads) attention_merge_kernel(AttentionMergeParams p) {
    KIMI_SHARED(float, tops, kWarps);
    KIMI_SHARED(float, totals, kWarps);
    KIMI_SHARED(float4, sums, kThreads);
    grid_dependency_wait();
    grid_dependency_launch();
    const int chunks = (p.dim + kChunk - 1) / kChunk;
    const int query = static_cast<int>(blockIdx.x) / chunks, row = query / p.n_heads;
    const int chunk = static_cast<int>(blockIdx.x) % chunks;
    if (static_cast<unsigned>(row) >= p.n_rows[0]) return;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int column = chunk * kChunk + lane * 4;
    const bool inside = column < p.dim;
    const std::int64_t stride = std::int64_t{p.row_capacity} * p.n_heads;
    const std::uint32_t parts_of_row = p.n_parts[row];
    const int n_parts = static_cast<int>(parts_of_row);

    float top = -INFINITY;
    for (int i = static_cast<int>(threadIdx.x); i < n_parts; i += kThreads) {
        const float lse = p.part_lse[i * stride + query];
        top = fmaxf(top, lse);
    }
    for (int mask = 1; mask < 32; mask *= 2) top = fmaxf(top, __shfl_xor_sync(~0U, top, mask));
    if (lane == 0) tops[warp] = top;
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, tops[w]);
    const float zero = top == -INFINITY ? 0.0F : top;

    float4 sum = {};
    float total = 0;
#pragma unroll 4
    for (int i = warp; i < n_parts; i += kWarps) {
        const float lse = p.part_lse[i * stride + query];
        const float weight = exp2_approx(lse - zero);
        if (!inside || lse == -INFINITY) continue;
        const float4 v = load<float4>(p.part_out + (i * stride + query) * p.dim + column);
        sum.x = __fmaf_rn(weight, v.x, sum.x);
        sum.y = __fmaf_rn(weight, v.y, sum.y);
        sum.z = __fmaf_rn(weight, v.z, sum.z);
        sum.w = __fmaf_rn(weight, v.w, sum.w);
        total += weight;
    }
    sums[threadIdx.x] = sum;
    if (lane == 0) totals[warp] = total;
    __syncthreads();
    if (warp > 0) return;
    for (int w = 1; w < kWarps; ++w) {
        const float4 other = sums[w * 32 + lane];
        sum.x += other.x;
        sum.y += other.y;
        sum.z += other.z;
        sum.w += other.w;
    }
    total = 0;
    for (int w = 0; w < kWarps; ++w) total += totals[w];
    const std::int64_t place = place_of(p, row, query % p.n_heads);
    if (p.lse && chunk == 0 && lane == 0) {
        p.lse[place] = total == 0 ? -INFINITY : top + log2_approx(total);
    }
    if (!inside) return;
    const float inverse = total == 0 ? 0.0F : 1.0F / total;
    sum = {sum.x * inverse, sum.y * inverse, sum.z * inverse, sum.w * inverse};
    const std::int64_t to = place * p.dim + column;
    if (p.out) store(p.out + to, uint2{pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w)});
    if (p.out_fp32) store(p.out_fp32 + to, sum);
}

}  // namespace

void attention_merge(const AttentionMergeParams &p, Stream stream) {
    const int chunks = (p.dim + kChunk - 1) / kChunk;
    launch({.name = "attention_merge",
            .grid = {static_cast<unsigned>(p.max_rows * p.n_heads * chunks)},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           attention_merge_kernel, p);
}

}  // namespace kimi
