// Example of a kernel: y[m, n] = sum over k of a[m, k] b[n, k], bf16 with fp32 accumulation.
//
// A block makes 64 x 64 of y with 8 warps of 16 x 32 each. k runs in slices of 32 through a
// pipeline of 3 stages of cp.async. Rows of a slice are padded to 80 bytes, so that ldmatrix has no
// bank conflicts.
#include "tests/simt/matmul.h"

#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr int kTile = 64, kSlice = 32, kStages = 3, kThreads = 256;
constexpr int kRow = kSlice + 8;  // elements between rows in shared memory
constexpr int kStage = 2 * kTile * kRow;
constexpr std::uint32_t kSharedBytes = kStages * kStage * sizeof(bf16);

// Every thread copies 16 bytes of a and 16 of b. Rows beyond m are zero.
__device__ __forceinline__ void load_slice(const MatmulParams &p, Shared<bf16> stage, int m0,
                                           int n0, int k0) {
    const int row = static_cast<int>(threadIdx.x) / 4,
              column = static_cast<int>(threadIdx.x) % 4 * 8;
    const bool inside = m0 + row < p.m;
    const std::int64_t from = std::int64_t{inside ? m0 + row : 0} * p.k + k0 + column;
    cp_async<16>(stage + row * kRow + column, p.a + from, inside ? 16 : 0);
    cp_async<16>(stage + (kTile + row) * kRow + column,
                 p.b + std::int64_t{n0 + row} * p.k + k0 + column);
}

__global__ void __launch_bounds__(kThreads) matmul_kernel(MatmulParams p) {
    const Shared<bf16> stages = dynamic_shared<bf16>(0, kStages * kStage);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int m0 = static_cast<int>(blockIdx.x) * kTile, n0 = static_cast<int>(blockIdx.y) * kTile;
    const int warp_m = warp / 2 * 16, warp_n = warp % 2 * 32;
    const int n_slices = p.k / kSlice;

    for (int s = 0; s < kStages - 1; ++s) {
        if (s < n_slices) load_slice(p, stages + s * kStage, m0, n0, s * kSlice);
        cp_async_commit();
    }
    FragC acc[4] = {};
    for (int s = 0; s < n_slices; ++s) {
        cp_async_wait<kStages - 2>();
        __syncthreads();
        const int ahead = s + kStages - 1;
        if (ahead < n_slices) {
            load_slice(p, stages + ahead % kStages * kStage, m0, n0, ahead * kSlice);
        }
        cp_async_commit();

        const Shared<bf16> a_tile = stages + s % kStages * kStage + warp_m * kRow;
        const Shared<bf16> b_tile = stages + s % kStages * kStage + (kTile + warp_n) * kRow;
#pragma unroll
        for (int k = 0; k < kSlice; k += 16) {
            FragA a;
            FragB b[4];
            ldmatrix_x4(a, a_tile + lane % 16 * kRow + k + lane / 16 * 8);
#pragma unroll
            for (int n = 0; n < 4; n += 2) {
                ldmatrix_x4(
                    b[n], b[n + 1],
                    b_tile + (n * 8 + lane / 16 * 8 + lane % 8) * kRow + k + lane / 8 % 2 * 8);
            }
#pragma unroll
            for (int n = 0; n < 4; ++n) mma_bf16(acc[n], a, b[n]);
        }
    }

#pragma unroll
    for (int n = 0; n < 4; ++n) {
        for (int half = 0; half < 2; ++half) {
            const int row = m0 + warp_m + lane / 4 + 8 * half;
            const int column = n0 + warp_n + n * 8 + lane % 4 * 2;
            if (row >= p.m) continue;
            store(p.y + (std::int64_t{row} * p.n + column),
                  float2{acc[n][2 * half], acc[n][2 * half + 1]});
        }
    }
}

}  // namespace

void matmul(const MatmulParams &p, Stream stream) {
    const auto tiles = [](int n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
    launch({.name = "matmul",
            .grid = {tiles(p.m), tiles(p.n)},
            .block = {kThreads},
            .shared_bytes = kSharedBytes,
            .stream = stream},
           matmul_kernel, p);
}

}  // namespace kimi
