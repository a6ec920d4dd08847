// Design note, 2026-11: weights are the A operand of mma.m16n8k16 and tokens the B operand, since
// an expert has one or two tokens of a decode step. A nibble u becomes the bf16 128 + u by one
// lop3, and u - 8 by one addition on two; the scales of 32 inputs multiply fp32 sums, so that
// weights are exact. About 30 instructions per 256 B of weights: an SM unpacks ten times faster
// than it is fed.
//
// gate_up: a block's 8 warps take turns on the units of a tile of 8 gate and 8 up rows and add
// their sums at its end. Blocks stay and take turns on all tiles of their slice, and the pipeline
// runs over from tile to tile: a single token (8 experts x 32 tiles of a slice of 256) is one wave
// with no ramp but the first. 36,864 B of stages, 2 blocks per SM: 60 KB under way.
//
// down: a warp owns 16 outputs, walks over the experts of its slice in ascending order and keeps
// the sums of all rows in registers, so that there is nothing to combine afterwards; rows that have
// not chosen an expert multiply zeros. Its weights are fetched while the launch before still runs.
#include "kernels/moe_experts.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/fragments.h"
#include "kernels/moe_slice.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr int kWarps = 8;  // of a gate_up block
constexpr int kStages = 6;
constexpr int kTileGate = kMoeTileRows / 2;
constexpr int kUnitBytes = 4 * kMoeUnitWords, kScaleBytes = 2 * kMoeUnitScales;
constexpr int kStageBytes = 32 * (16 + 8);  // of a warp: each lane's words and scales

// One lane's part of a stage, written and read by that lane alone.
struct Stage {
    Shared<uint4> words;
    Shared<uint2> scales;
};
__device__ __forceinline__ Stage stage_of(int warp, int stage) {
    const int at = (warp * kStages + stage % kStages) * kStageBytes,
              lane = static_cast<int>(threadIdx.x) % 32;
    return {dynamic_shared<uint4>(static_cast<unsigned>(at), 32) + lane,
            dynamic_shared<uint2>(static_cast<unsigned>(at + 32 * 16), 32) + lane};
}

// A matrix of one expert.
struct Matrix {
    Global<const std::uint8_t> words, scales;
};
__device__ __forceinline__ Matrix matrix_of(const Global<const std::uint8_t> &experts,
                                            std::uint32_t expert, std::int64_t units) {
    const Global<const std::uint8_t> words = experts + expert * units * (kUnitBytes + kScaleBytes);
    return {words, words + units * kUnitBytes};
}
__device__ __forceinline__ void fetch_unit(const Matrix &matrix, std::int64_t unit,
                                           const Stage &stage) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    cp_async<16>(stage.words, matrix.words + (unit * kUnitBytes + lane * 16));
    cp_async<8>(stage.scales, matrix.scales + (unit * kScaleBytes + lane / 4 * 8));
}

// The operands of two mma from the words of a lane: 32 inputs of rows g and g + 8.
__device__ __forceinline__ std::uint32_t to_bf16_pair(std::uint32_t word, int pair) {
    constexpr std::uint32_t kMinus136 = 0xC308C308U, kOne = 0x3F803F80U, kBase = 0x43004300U;
    return fma_bf16(lop3<0xEA>(word >> (4 * pair), 0x000F000FU, kBase), kOne,
                    kMinus136);  // (a & b) | c
}
__device__ __forceinline__ void unpack(std::uint32_t low, std::uint32_t high, FragA (&a)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        a[i] = frag_a(to_bf16_pair(low, 2 * i), to_bf16_pair(high, 2 * i),
                      to_bf16_pair(low, 2 * i + 1), to_bf16_pair(high, 2 * i + 1));
    }
}

// sum += scale * (weights * x) over 32 inputs; `scales` has those of rows g and g + 8.
__device__ __forceinline__ void add_product(FragC &sum, const FragA (&a)[2], const uint4 &x,
                                            std::uint32_t scales) {
    FragC dot = {};
    mma_bf16(dot, a[0], frag_b(x.x, x.y));
    mma_bf16(dot, a[1], frag_b(x.z, x.w));
    const float2 scale = unpack_bf16(scales);
    sum[0] = fmaf(scale.x, dot[0], sum[0]);
    sum[1] = fmaf(scale.x, dot[1], sum[1]);
    sum[2] = fmaf(scale.y, dot[2], sum[2]);
    sum[3] = fmaf(scale.y, dot[3], sum[3]);
}

// ---- gate and up

__global__ void __launch_bounds__(32 * kWarps, 2) moe_gate_up_kernel(MoeExpertsParams p) {
    KIMI_SHARED(float4, sums, 2 * kWarps * 32);
    grid_dependency_wait();
    grid_dependency_launch();
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4, t = lane % 4;
    const int units = static_cast<int>(p.hidden / kMoeUnitInputs),
              row_tiles = static_cast<int>(p.width / kTileGate);
    const std::int64_t matrix_units = std::int64_t{row_tiles} * units;
    const unsigned slice = blockIdx.x;
    const MoePlan plan = moe_plan_of(p.plan, slice, p.top_k);
    const std::uint32_t first_row = slice * kMoeSliceRows, first_pair = first_row * p.top_k;
    const std::uint32_t n_tiles = plan.n_tiles[0];
    const int n_items = static_cast<int>(n_tiles) * row_tiles;
    const int n_steps = (units - warp + kWarps - 1) / kWarps;  // of this warp, for an item

    // The next step to fetch.
    int fetch_item = static_cast<int>(blockIdx.y), fetch_step = 0, fetched = 0;
    const auto fetch = [&] {
        if (fetch_item < n_items && n_steps > 0) {
            const MoeTile tile = plan.tiles[fetch_item / row_tiles];
            const std::int64_t unit =
                std::int64_t{fetch_item % row_tiles} * units + warp + fetch_step * kWarps;
            fetch_unit(matrix_of(p.gate_up, tile.expert, matrix_units), unit,
                       stage_of(warp, fetched));
            ++fetched;
            if (++fetch_step == n_steps) {
                fetch_step = 0;
                fetch_item += static_cast<int>(gridDim.y);
            }
        }
        cp_async_commit();
    };
    for (int i = 0; i < kStages - 1; ++i) fetch();

    int step = 0;
    for (int item = static_cast<int>(blockIdx.y), turn = 0; item < n_items;
         item += static_cast<int>(gridDim.y), ++turn) {
        const MoeTile tile = plan.tiles[item / row_tiles];
        const bool valid = static_cast<unsigned>(g) < tile.n;
        std::uint32_t row = first_row;
        if (valid) row += plan.pair_row[tile.first + static_cast<unsigned>(g)];
        const Global<const bf16> x = p.x + (std::int64_t{row} * p.hidden + 8 * t);
        const auto load_x = [&](int i, int half) {
            const int unit = warp + i * kWarps;
            return valid && i < n_steps
                       ? load_readonly<uint4>(x +
                                              (unit * static_cast<int>(kMoeUnitInputs) + 32 * half))
                       : uint4{0, 0, 0, 0};
        };
        FragC sum = {};
        uint4 next[2] = {load_x(0, 0), load_x(0, 1)};
        for (int i = 0; i < n_steps; ++i, ++step) {
            const uint4 now[2] = {next[0], next[1]};
            next[0] = load_x(i + 1, 0);
            next[1] = load_x(i + 1, 1);
            cp_async_wait<kStages - 2>();
            const Stage stage = stage_of(warp, step);
            const uint4 words = load<uint4>(stage.words);
            const uint2 scales = load<uint2>(stage.scales);
            fetch();
            FragA a[2];
            unpack(words.x, words.y, a);
            add_product(sum, a, now[0], scales.x);
            unpack(words.z, words.w, a);
            add_product(sum, a, now[1], scales.y);
        }
        const Shared<float4> slots = sums + turn % 2 * kWarps * 32;
        slots[warp * 32 + lane] = float4{sum[0], sum[1], sum[2], sum[3]};
        __syncthreads();
        if (warp != turn % kWarps) continue;
        float4 total = {};
        for (int w = 0; w < kWarps; ++w) {
            const float4 v = slots[w * 32 + lane];
            total = {total.x + v.x, total.y + v.y, total.z + v.z, total.w + v.w};
        }
        // Gate row g of tokens 2t and 2t + 1, then up row g.
        const float gate[2] = {total.x, total.y}, up[2] = {total.z, total.w};
        for (int j = 0; j < 2; ++j) {
            const unsigned token = static_cast<unsigned>(2 * t + j);
            if (token >= tile.n) continue;
            const float weight = plan.pair_weight[tile.first + token];
            const std::int64_t to = std::int64_t{first_pair + tile.first + token} * p.width +
                                    item % row_tiles * kTileGate + g;
            p.act[to] = float_to_bf16(gate[j] / (1.0F + expf(-gate[j])) * up[j] * weight);
        }
    }
}

// Blocks of a slice, which take turns on its tiles.
std::uint32_t gate_up_blocks(const MoeExpertsParams &p, std::uint32_t slices) {
    const std::uint32_t tiles = std::min(p.max_rows, kMoeSliceRows) * p.top_k;
    const std::uint32_t blocks = 2 * static_cast<std::uint32_t>(p.n_sms) / slices;
    return std::clamp(blocks, 1U, tiles * (p.width / kTileGate));
}

// ---- down

template <int kRowTiles>
__global__ void __launch_bounds__(32) moe_down_kernel(MoeExpertsParams p) {
    const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
    const int units = static_cast<int>(p.width / kMoeUnitInputs),
              tile = static_cast<int>(blockIdx.y);
    const unsigned slice = blockIdx.x;
    const MoePlan plan = moe_plan_of(p.plan, slice, p.top_k);
    const std::uint32_t first_row = slice * kMoeSliceRows, first_pair = first_row * p.top_k;
    const std::int64_t matrix_units = std::int64_t{p.hidden / kMoeTileRows} * units;
    // The plan is older than the launch ahead, which has waited for it.
    const std::uint32_t n_groups = plan.n_groups[0];
    const int n_steps = static_cast<int>(n_groups) * units;
    const auto fetch = [&](int step) {
        if (step < n_steps) {
            const MoeGroup group = plan.groups[step / units];
            fetch_unit(matrix_of(p.down, group.expert, matrix_units),
                       std::int64_t{tile} * units + step % units, stage_of(0, step));
        }
        cp_async_commit();
    };
    for (int step = 0; step < kStages - 1; ++step) fetch(step);
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t n_rows = moe_rows_of(p.n_rows[0], slice);

    FragC sum[kRowTiles] = {};
    for (int step = 0, i = 0; i < static_cast<int>(n_groups); ++i) {
        const MoeGroup group = plan.groups[i];
        for (int unit = 0; unit < units; ++unit, ++step) {
            __syncwarp();
            // Of rows 8n + g; zeros for those that have not chosen the expert.
            uint4 x[kRowTiles][2];
#pragma unroll
            for (int n = 0; n < kRowTiles; ++n) {
                const int row = 8 * n + g;
                x[n][0] = x[n][1] = uint4{0, 0, 0, 0};
                if (!(group.rows >> row & 1)) continue;
                const std::uint64_t before = group.rows & ((std::uint64_t{1} << row) - 1);
                const std::int64_t pair =
                    first_pair + group.first + static_cast<unsigned>(__popcll(before));
                const Global<const bf16> from =
                    p.act + (pair * p.width + unit * static_cast<int>(kMoeUnitInputs) + 8 * t);
                x[n][0] = load_readonly<uint4>(from);
                x[n][1] = load_readonly<uint4>(from + 32);
            }
            cp_async_wait<kStages - 2>();
            const Stage stage = stage_of(0, step);
            const uint4 words = load<uint4>(stage.words);
            const uint2 scales = load<uint2>(stage.scales);
            fetch(step + kStages - 1);
            FragA a[2][2];
            unpack(words.x, words.y, a[0]);
            unpack(words.z, words.w, a[1]);
#pragma unroll
            for (int n = 0; n < kRowTiles; ++n) {
                if ((group.rows >> (8 * n) & 0xFF) == 0) continue;
                add_product(sum[n], a[0], x[n][0], scales.x);
                add_product(sum[n], a[1], x[n][1], scales.y);
            }
        }
    }
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const unsigned row = static_cast<unsigned>(8 * n + 2 * t + e % 2);
            if (row >= n_rows) continue;
            const Global<float> to = p.y + (std::int64_t{first_row + row} * p.hidden +
                                            tile * static_cast<int>(kMoeTileRows) + e / 2 * 8 + g);
            float before = 0;
            if (p.add) before = to[0];
            to[0] = before + sum[n][e];
        }
    }
}

}  // namespace

std::size_t moe_gate_up_shared_bytes() {
    return kWarps * moe_down_shared_bytes();
}
std::size_t moe_down_shared_bytes() {
    return kStages * kStageBytes;
}

void moe_experts(const MoeExpertsParams &p, Stream stream) {
    KIMI_CHECK(p.hidden % kMoeUnitInputs == 0 && p.width % kMoeUnitInputs == 0 && p.width > 0);
    KIMI_CHECK(p.top_k <= kMoeMaxTopK);
    if (p.max_rows == 0) return;
    const std::uint32_t slices = moe_slices(p.max_rows);
    launch({.name = "moe_gate_up",
            .grid = {slices, gate_up_blocks(p, slices)},
            .block = {32 * kWarps},
            .shared_bytes = moe_gate_up_shared_bytes(),
            .stream = stream,
            .dependent = true},
           moe_gate_up_kernel, p);
    const auto down = p.max_rows <= 8    ? moe_down_kernel<1>
                      : p.max_rows <= 16 ? moe_down_kernel<2>
                      : p.max_rows <= 32 ? moe_down_kernel<4>
                                         : moe_down_kernel<8>;
    launch({.name = "moe_down",
            .grid = {slices, p.hidden / kMoeTileRows},
            .block = {32},
            .shared_bytes = moe_down_shared_bytes(),
            .stream = stream,
            .dependent = true},
           down, p);
}

}  // namespace kimi
