// A thread makes 4 values of a row: enough blocks to fill the GPU with a single row.
#include "kernels/swiglu.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr unsigned kThreads = 128;

__device__ __forceinline__ float silu_times(float gate, float up) {
    return gate / (1.0F + expf(-gate)) * up;
}

__global__ void __launch_bounds__(kThreads) swiglu_kernel(SwigluParams p) {
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t row = blockIdx.y, column = 4 * (blockIdx.x * kThreads + threadIdx.x);
    if (row >= p.n_rows[0] || column >= p.width) return;
    const std::int64_t at = std::int64_t{row} * p.width + column;
    const auto gate = load_readonly<float4>(p.gate + at), up = load_readonly<float4>(p.up + at);
    store(p.y + at, uint2{pack_bf16(silu_times(gate.x, up.x), silu_times(gate.y, up.y)),
                          pack_bf16(silu_times(gate.z, up.z), silu_times(gate.w, up.w))});
}

}  // namespace

void swiglu(const SwigluParams &p, Stream stream) {
    KIMI_CHECK(p.width > 0 && p.width % 4 == 0);
    if (p.max_rows == 0) return;
    launch({.name = "swiglu",
            .grid = {(p.width / 4 + kThreads - 1) / kThreads, p.max_rows},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           swiglu_kernel, p);
}

}  // namespace kimi
