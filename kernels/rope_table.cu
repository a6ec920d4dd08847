// A thread per angle. Polynomials: the minimax ones of Cephes' sinf and cosf on [-pi/4, pi/4].
#include "kernels/rope_table.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr unsigned kThreads = 128;

__device__ __forceinline__ float2 cos_sin(float angle) {
    constexpr double kTwoOverPi = 0.63661977236758134308, kPiOverTwo = 1.57079632679489661923;
    const double turns = angle * kTwoOverPi;
    const auto quarter = static_cast<int>(turns + (turns < 0 ? -0.5 : 0.5));
    const auto x = static_cast<float>(angle - quarter * kPiOverTwo);
    const float z = x * x;
    const float sin =
        fmaf(fmaf(fmaf(-1.9515295891e-4F, z, 8.3321608736e-3F), z, -1.6666654611e-1F) * z, x, x);
    const float cos =
        fmaf(fmaf(fmaf(2.443315711809948e-5F, z, -1.388731625493765e-3F), z, 4.166664568298827e-2F),
             z * z, fmaf(-0.5F, z, 1.0F));
    switch (quarter & 3) {
        case 0:
            return {cos, sin};
        case 1:
            return {-sin, cos};
        case 2:
            return {-cos, -sin};
        default:
            return {sin, -cos};
    }
}

__global__ void __launch_bounds__(kThreads) rope_table_kernel(RopeTableParams p) {
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t at = blockIdx.x * kThreads + threadIdx.x, row = at / p.n_freq,
                        i = at % p.n_freq;
    if (row >= p.n_rows[0]) return;
    const std::uint32_t position = p.position[row];
    const float inv_freq = p.inv_freq[i];
    const float2 v = cos_sin(__fmul_rn(static_cast<float>(position), inv_freq));
    const Global<float> to = p.table + std::int64_t{row} * 2 * p.n_freq;
    to[i] = v.x * p.amplitude;
    to[p.n_freq + i] = v.y * p.amplitude;
}

}  // namespace

void rope_table(const RopeTableParams &p, Stream stream) {
    KIMI_CHECK(p.n_freq > 0);
    if (p.max_rows == 0) return;
    launch({.name = "rope_table",
            .grid = {(p.max_rows * p.n_freq + kThreads - 1) / kThreads},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           rope_table_kernel, p);
}

}  // namespace kimi
