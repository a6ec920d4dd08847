// One block per row. A thread holds two groups of 4 values, 4 * blockDim apart, so that every
// access of a warp is contiguous. Sums go through a fixed tree: 4 values, warp, block. The weight
// is fetched while the kernel ahead still runs.
#include "kernels/rms_norm.h"

#include "base/error.h"
#include "kernels/reduce.h"

namespace kimi {
namespace {

using namespace simt;

constexpr unsigned kGroups = 2;

__device__ __forceinline__ float sum_of_squares(const float4 &v) {
    return fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w);
}

__global__ void __launch_bounds__(1024) rms_norm_kernel(RmsNormParams p) {
    KIMI_SHARED(float, scratch, 32);
    uint2 weight[kGroups];
#pragma unroll
    for (unsigned i = 0; i < kGroups; ++i) {
        const std::uint32_t at = 4 * (threadIdx.x + i * blockDim.x);
        if (at < p.width) weight[i] = load_readonly<uint2>(p.weight + at);
    }
    grid_dependency_wait();
    grid_dependency_launch();
    if (blockIdx.x >= p.n_rows[0]) return;
    std::uint32_t row = blockIdx.x;
    if (p.row) row = p.row[blockIdx.x];
    const Global<float> x = p.x + std::int64_t{row} * p.width;
    const Global<bf16> y = p.y + std::int64_t{blockIdx.x} * p.width;

    float4 v[kGroups] = {};
    float squares = 0;
#pragma unroll
    for (unsigned i = 0; i < kGroups; ++i) {
        const std::uint32_t at = 4 * (threadIdx.x + i * blockDim.x);
        if (at >= p.width) continue;
        v[i] = load<float4>(x + at);
        if (p.addend) {
            const auto pairs = load_readonly<uint2>(p.addend + (std::int64_t{row} * p.width + at));
            const float2 a = unpack_bf16(pairs.x), b = unpack_bf16(pairs.y);
            v[i] = {v[i].x + a.x, v[i].y + a.y, v[i].z + b.x, v[i].w + b.y};
            store(x + at, v[i]);
        }
        squares += sum_of_squares(v[i]);
    }
    const auto add = [](float a, float b) { return a + b; };
    const float mean = block_reduce(squares, 0.0F, scratch, add) / static_cast<float>(p.width);
    const float factor = 1.0F / sqrtf(mean + p.eps);

#pragma unroll
    for (unsigned i = 0; i < kGroups; ++i) {
        const std::uint32_t at = 4 * (threadIdx.x + i * blockDim.x);
        if (at >= p.width) continue;
        const float2 a = unpack_bf16(weight[i].x), b = unpack_bf16(weight[i].y);
        store(y + at, uint2{pack_bf16(v[i].x * factor * a.x, v[i].y * factor * a.y),
                            pack_bf16(v[i].z * factor * b.x, v[i].w * factor * b.y)});
    }
}

}  // namespace

void rms_norm(const RmsNormParams &p, Stream stream) {
    KIMI_CHECK(p.width > 0 && p.width % 4 == 0 && p.width <= kRmsNormMaxWidth);
    if (p.max_rows == 0) return;
    launch({.name = "rms_norm",
            .grid = {p.max_rows},
            .block = {rms_norm_threads(p.width)},
            .stream = stream,
            .dependent = true},
           rms_norm_kernel, p);
}

}  // namespace kimi
