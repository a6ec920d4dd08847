// Design note, 2026-11: weights are the A operand of mma.m16n8k16 and the rows of x the B operand,
// so that up to 8 rows cost one mma and none is wasted on padding to 16.
//
// A block makes 16 or 32 outputs. Its 4 warps take turns on the inputs, 64 at a time, and add their
// sums at the end: no barrier in the loop, and small matrices still have many bytes under way.
//
// The order of the inputs inside a dot product is free. Lane (g, t) of an mma holds inputs 2t, 2t+1
// and 2t+8, 2t+9 of matrix rows g and g+8; here these slots get inputs 8t..8t+7 of 32 over two mma.
// So a fragment is 16 contiguous bytes of a weight row, and of a row of x: the lane copies its
// weights with cp.async into slots of shared memory that only itself reads back, 16 bytes per lane
// side by side, without conflicts and without waiting for other lanes. x comes from L2 into
// registers, half a step (32 inputs) ahead.
//
//                        shared memory      weights under way    registers    blocks per SM
//   16 outputs, 6 stages      49,152 B   5 x 8 KB per block      up to 168    2
//   32 outputs, 6 stages      98,304 B   5 x 16 KB per block     up to 255    1
//
// The stream needs bandwidth x latency = 1.5 TB/s x 1 us = 1.5 MB, 8 KB per SM. Blocks of 32
// outputs exist because every block reads all of x: 64 rows for 32 outputs are 2 bytes of L2 per
// byte of DRAM. While the kernel ahead in the stream still runs, the first stages of weights are
// fetched.
//
// Where the outputs are few, blocks split the inputs; each writes its sums to `partial`, and the
// last one to arrive adds them in order of the splits.
#include "kernels/skinny_gemm.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/fragments.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kStep = 64;               // inputs of a warp's stage
constexpr int kGroup = kWarps * kStep;  // inputs that the warps of a block take in turn
constexpr int kStages = 6;
constexpr int kOutputs = 16, kRows = 8;    // of an mma
constexpr int kSumRow = kOutputs + 4;      // floats between rows: no conflicts among fragments
constexpr int kSumTile = kRows * kSumRow;  // floats of one warp's sums of a tile
constexpr int kStageBytes = kOutputs * kStep * 2;  // per 16 outputs and warp

// A block's matrix, the first of its outputs and its part of the inputs.
struct Place {
    Global<const bf16> weight;
    std::uint32_t job, output, tile;
    int first_step, n_steps;  // of this warp
};

template <int kOutputTiles>
__device__ __forceinline__ Place place_of(const SkinnyGemmParams &p, int warp) {
    Place at;
    at.tile = blockIdx.x;
    at.job = 0;
    std::uint32_t tile = blockIdx.x;
    for (; at.job + 1 < p.n_jobs; ++at.job) {
        const std::uint32_t n =
            (p.jobs[at.job].outputs + kOutputs * kOutputTiles - 1) / (kOutputs * kOutputTiles);
        if (tile < n) break;
        tile -= n;
    }
    at.weight =
        p.jobs[at.job].weight + std::int64_t{blockIdx.z} * p.jobs[at.job].outputs * p.inputs;
    at.output = tile * kOutputs * kOutputTiles;
    const int groups = static_cast<int>((p.inputs + kGroup - 1) / kGroup);
    const int split = static_cast<int>(blockIdx.y), splits = static_cast<int>(gridDim.y);
    const int first = split * groups / splits, end = (split + 1) * groups / splits;
    const int steps = static_cast<int>((p.inputs + kStep - 1) / kStep);
    at.first_step = first * kWarps + warp;
    at.n_steps = max(0, min(end * kWarps, steps) - at.first_step + kWarps - 1) / kWarps;
    return at;
}

__device__ __forceinline__ void add_to(float4 &sum, const float4 &v) {
    sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
}

// This lane's four sums of a tile, over the warps: row lane % 8, outputs 4 * (lane / 8) and on.
template <int kTiles>
__device__ __forceinline__ float4 block_sum(Shared<const float> sums, int tile) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float4 total = {};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
        add_to(total, load<float4>(sums + ((w * kTiles + tile) * kSumTile + lane % 8 * kSumRow +
                                           lane / 8 * 4)));
    }
    return total;
}

template <int kRowTiles>
__device__ __forceinline__ void write(const SkinnyGemmParams &p, const Place &at, int tile,
                                      int n_rows, float4 v) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const SkinnyGemmJob &job = p.jobs[at.job];
    const int row = tile % kRowTiles * kRows + lane % 8;
    const std::uint32_t output =
        at.output + static_cast<unsigned>(tile / kRowTiles * kOutputs + lane / 8 * 4);
    if (row >= n_rows || output >= job.outputs) return;
    const std::uint32_t y_row = job.y_row > 0 ? job.y_row : job.outputs;
    const std::int64_t to =
        std::int64_t{row} * y_row + std::int64_t{blockIdx.z} * job.y_batch + output;
    if (job.y_f32) {
        if (job.add) add_to(v, load<float4>(job.y_f32 + to));
        store(job.y_f32 + to, v);
    } else {
        if (job.add) {
            const auto pairs = load<uint2>(job.y_bf16 + to);
            const float2 a = unpack_bf16(pairs.x), b = unpack_bf16(pairs.y);
            add_to(v, {a.x, a.y, b.x, b.y});
        }
        store(job.y_bf16 + to, uint2{pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)});
    }
}

// Whether all other blocks that share the counter were here before; resets it for the next launch.
// What they wrote before is visible to the last one.
__device__ __forceinline__ bool last_to_arrive(Global<std::uint32_t> arrived) {
    KIMI_SHARED(std::uint32_t, before, 1);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) before[0] = atomicAdd(arrived, 1U);
    __syncthreads();
    const std::uint32_t n = before[0];
    if (n + 1 < gridDim.y) return false;
    if (threadIdx.x == 0) atomicExch(arrived, 0U);
    __threadfence();
    return true;
}

template <int kRowTiles, int kOutputTiles>
__global__ void __launch_bounds__(kThreads, kOutputTiles == 1 ? 2 : 1)
    skinny_gemm_kernel(SkinnyGemmParams p) {
    constexpr int kStage = kWarps * kOutputTiles * kStageBytes;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int g = lane / 4, t = lane % 4;
    const Place at = place_of<kOutputTiles>(p, warp);
    const std::uint32_t outputs = p.jobs[at.job].outputs;
    const auto input_of = [&](int step, int half) {
        return static_cast<unsigned>((at.first_step + step * kWarps) * kStep + 32 * half + 8 * t);
    };

    // This lane's pieces of a stage: [16-output tile][32 inputs][row g, g + 8], a warp's side by
    // side.
    const Shared<uint4> slots = dynamic_shared<uint4>(0, kStages * kStage / 16);
    const auto slot = [&](int stage, int m, int half, int upper) {
        const int piece = ((stage * kWarps + warp) * kOutputTiles + m) * 4 + 2 * half + upper;
        return slots + (piece * 32 + lane);
    };
    const auto fetch_weights = [&](int step) {
        if (step < at.n_steps) {
            for (int m = 0; m < kOutputTiles; ++m) {
                for (int upper = 0; upper < 2; ++upper) {
                    const std::uint32_t o =
                        at.output + static_cast<unsigned>(kOutputs * m + 8 * upper + g);
                    for (int half = 0; half < 2; ++half) {
                        const std::uint32_t i = input_of(step, half);
                        const bool inside = o < outputs && i < p.inputs;
                        const std::int64_t from = inside ? std::int64_t{o} * p.inputs + i : 0;
                        cp_async<16>(slot(step % kStages, m, half, upper), at.weight + from,
                                     inside ? 16 : 0);
                    }
                }
            }
        }
        cp_async_commit();
    };
    for (int step = 0; step < kStages - 1; ++step) fetch_weights(step);
    grid_dependency_wait();
    grid_dependency_launch();
    const int n_rows = static_cast<int>(p.n_rows[0]);

    const std::uint32_t x_row = p.x_row > 0 ? p.x_row : p.inputs;
    const Global<const bf16> x_batch = p.x + std::int64_t{blockIdx.z} * p.x_batch;
    // Rows beyond n_rows are zero and not read.
    const auto fetch_x = [&](uint4(&x)[kRowTiles], int step, int half) {
        const std::uint32_t i = input_of(step, half);
#pragma unroll
        for (int n = 0; n < kRowTiles; ++n) {
            const int row = kRows * n + g;
            x[n] = {};
            if (row < n_rows && i < p.inputs && step < at.n_steps) {
                x[n] = load_readonly<uint4>(x_batch + (std::int64_t{row} * x_row + i));
            }
        }
    };
    FragC sum[kOutputTiles][kRowTiles] = {};
    uint4 x[kRowTiles], next[kRowTiles];
    fetch_x(x, 0, 0);
    for (int step = 0; step < at.n_steps; ++step) {
        cp_async_wait<kStages - 2>();
        fetch_weights(step + kStages - 1);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            fetch_x(next, step + half, 1 - half);
#pragma unroll
            for (int m = 0; m < kOutputTiles; ++m) {
                const auto low = load<uint4>(slot(step % kStages, m, half, 0));
                const auto high = load<uint4>(slot(step % kStages, m, half, 1));
                const FragA a[2] = {frag_a(low.x, high.x, low.y, high.y),
                                    frag_a(low.z, high.z, low.w, high.w)};
#pragma unroll
                for (int n = 0; n < kRowTiles; ++n) {
                    if (kRows * n >= n_rows) continue;
                    mma_bf16(sum[m][n], a[0], frag_b(x[n].x, x[n].y));
                    mma_bf16(sum[m][n], a[1], frag_b(x[n].z, x[n].w));
                }
            }
#pragma unroll
            for (int n = 0; n < kRowTiles; ++n) x[n] = next[n];
        }
    }

    // The sums of a tile by all four warps, [warp][tile][row][output].
    constexpr int kTiles = kOutputTiles * kRowTiles;
    const Shared<float> sums = dynamic_shared<float>(0, kWarps * kTiles * kSumTile);
    cp_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kOutputTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kRowTiles; ++n) {
            const Shared<float> to =
                sums + ((warp * kTiles + m * kRowTiles + n) * kSumTile + 2 * t * kSumRow + g);
            to[0] = sum[m][n][0];
            to[kSumRow] = sum[m][n][1];
            to[8] = sum[m][n][2];
            to[kSumRow + 8] = sum[m][n][3];
        }
    }
    __syncthreads();
    const auto partial = [&](unsigned split, int tile) {
        const std::int64_t block =
            (std::int64_t{blockIdx.z} * gridDim.y + split) * gridDim.x + at.tile;
        return p.partial + ((block * kTiles + tile) * 32 + lane) * 4;
    };
    if (gridDim.y == 1) {
        for (int tile = warp; tile < kTiles; tile += kWarps) {
            write<kRowTiles>(p, at, tile, n_rows, block_sum<kTiles>(sums, tile));
        }
        return;
    }
    for (int tile = warp; tile < kTiles; tile += kWarps) {
        store(partial(blockIdx.y, tile), block_sum<kTiles>(sums, tile));
    }
    if (!last_to_arrive(p.arrived + (blockIdx.z * gridDim.x + at.tile))) return;
    for (int tile = warp; tile < kTiles; tile += kWarps) {
        float4 total = {};
        for (unsigned split = 0; split < gridDim.y; ++split) {
            add_to(total, load_volatile<float4>(partial(split, tile)));
        }
        write<kRowTiles>(p, at, tile, n_rows, total);
    }
}

using Kernel = void (*)(SkinnyGemmParams);

Kernel kernel_of(const SkinnyGemmTiles &tiles) {
    const bool two = tiles.output_tiles == 2;
    switch (tiles.row_tiles) {
        case 1:
            return two ? skinny_gemm_kernel<1, 2> : skinny_gemm_kernel<1, 1>;
        case 2:
            return two ? skinny_gemm_kernel<2, 2> : skinny_gemm_kernel<2, 1>;
        case 4:
            return two ? skinny_gemm_kernel<4, 2> : skinny_gemm_kernel<4, 1>;
        default:
            return two ? skinny_gemm_kernel<8, 2> : skinny_gemm_kernel<8, 1>;
    }
}

std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) {
    return (a + b - 1) / b;
}

std::uint32_t blocks_of(const SkinnyGemmParams &p) {
    std::uint32_t n = 0;
    for (std::uint32_t i = 0; i < p.n_jobs; ++i)
        n += ceil_div(p.jobs[i].outputs, kOutputs * p.tiles.output_tiles);
    return n;
}

std::uint32_t batches_of(const SkinnyGemmParams &p) {
    return std::max(1U, p.batches);
}

}  // namespace

SkinnyGemmTiles skinny_gemm_tiles(std::uint32_t max_rows, std::uint32_t outputs,
                                  std::uint32_t inputs, std::uint32_t n_sms) {
    SkinnyGemmTiles tiles;
    const std::uint32_t rows = ceil_div(max_rows, kRows), blocks = ceil_div(outputs, kOutputs);
    tiles.row_tiles = rows <= 1 ? 1 : rows <= 2 ? 2 : rows <= 4 ? 4 : 8;
    // Two blocks of 16 outputs per SM, each with 4 steps of every warp at least.
    tiles.splits =
        std::clamp(2 * n_sms / std::max(blocks, 1U), 1U, std::max(1U, inputs / (4 * kGroup)));
    // Of many rows more would be read from L2 than weights from DRAM; but all SMs need a block.
    tiles.output_tiles = rows > 2 && blocks * tiles.splits >= 2 * n_sms ? 2 : 1;
    return tiles;
}

SkinnyGemmWorkspace skinny_gemm_workspace(const SkinnyGemmParams &p) {
    if (p.tiles.splits == 1) return {};
    const std::size_t blocks = blocks_of(p) * batches_of(p), tile = kOutputs * kRows;
    return {blocks * p.tiles.splits * p.tiles.output_tiles * p.tiles.row_tiles * tile, blocks};
}

std::size_t skinny_gemm_shared_bytes(const SkinnyGemmTiles &tiles) {
    return std::size_t{kStages} * kWarps * kStageBytes * tiles.output_tiles;
}

void skinny_gemm(const SkinnyGemmParams &p, Stream stream) {
    KIMI_CHECK(p.inputs > 0 && p.inputs % 8 == 0 && p.n_jobs >= 1 &&
               p.n_jobs <= kSkinnyGemmMaxJobs);
    KIMI_CHECK(p.max_rows <= p.tiles.row_tiles * kRows);
    for (std::uint32_t i = 0; i < p.n_jobs; ++i)
        KIMI_CHECK(p.jobs[i].outputs > 0 && p.jobs[i].outputs % 4 == 0);
    if (p.max_rows == 0) return;
    launch({.name = "skinny_gemm",
            .grid = {blocks_of(p), p.tiles.splits, batches_of(p)},
            .block = {kThreads},
            .shared_bytes = skinny_gemm_shared_bytes(p.tiles),
            .stream = stream,
            .dependent = true},
           kernel_of(p.tiles), p);
}

}  // namespace kimi
