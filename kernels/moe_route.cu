// One block for a slice of 64 rows, so that sorting costs no launch. A warp routes a row: a lane
// holds every 32nd expert, and the best key of (score + bias, lower index) is found top_k times.
// Then thread e counts the rows of expert e from a bit mask, and a scan over the experts places
// pairs, tiles and groups. 16 warps; static shared memory 10 KB.
#include "kernels/moe_route.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/moe_slice.h"
#include "kernels/reduce.h"

namespace kimi {
namespace {

using namespace simt;

constexpr int kThreads = static_cast<int>(kMoeMaxExperts), kWarps = kThreads / 32;
constexpr int kPerLane = kThreads / 32;
constexpr unsigned kPairsPerTile = 8;

// Orders floats like numbers; never 0.
__device__ __forceinline__ std::uint32_t ordered(float x) {
    const std::uint32_t bits = __float_as_uint(x);
    return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}
__device__ __forceinline__ float sigmoid(float x) {
    return 1.0F / (1.0F + expf(-x));
}

__device__ __forceinline__ std::uint32_t place_of(const MoeRouteParams &p, std::uint32_t expert) {
    if (!p.held) return expert;
    return expert < p.n_experts ? load_readonly<std::uint32_t>(p.held + expert) : kMoeElsewhere;
}

struct alignas(16) Counts {
    unsigned pairs, tiles, groups, reserved;
};
__device__ __forceinline__ Counts operator+(const Counts &a, const Counts &b) {
    return {a.pairs + b.pairs, a.tiles + b.tiles, a.groups + b.groups, 0};
}
__device__ __forceinline__ Counts shuffled_up(const Counts &c, unsigned distance) {
    return {__shfl_up_sync(~0U, c.pairs, distance), __shfl_up_sync(~0U, c.tiles, distance),
            __shfl_up_sync(~0U, c.groups, distance), 0};
}

// row: of the slice, which begins at row `first`.
__device__ __forceinline__ void route_row(const MoeRouteParams &p, unsigned first, unsigned row,
                                          Shared<std::uint32_t> masks, Shared<float> weights,
                                          Shared<std::uint32_t> ids) {
    const unsigned lane = threadIdx.x % 32;
    const Global<const float> logits = p.logits + std::int64_t{first + row} * p.n_experts;
    std::uint32_t keys[kPerLane];
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        const unsigned e = 32 * static_cast<unsigned>(i) + lane;
        keys[i] = 0;
        if (e >= p.n_experts) continue;
        const float bias = p.bias[e];
        const float choice = sigmoid(load_readonly<float>(logits + e)) + bias;
        keys[i] = ordered(choice != choice ? -INFINITY : choice);
    }
    float sum = 0, weight = 0;
    unsigned chosen = 0;
#pragma unroll 1
    for (unsigned k = 0; k < p.top_k; ++k) {
        unsigned long long best = 0;
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            const unsigned long long key = static_cast<unsigned long long>(keys[i]) << 32 |
                                           ~(32 * static_cast<unsigned>(i) + lane);
            if (keys[i] != 0 && key > best) best = key;
        }
        best = warp_reduce(
            best, [](unsigned long long a, unsigned long long b) { return a > b ? a : b; });
        const unsigned e = ~static_cast<unsigned>(best);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            if (32 * static_cast<unsigned>(i) + lane == e) keys[i] = 0;
        }
        const float score = sigmoid(load_readonly<float>(logits + e));
        sum += score;
        if (lane == k) {
            weight = score;
            chosen = e;
        }
    }
    if (lane >= p.top_k) return;
    weight *= p.normalize ? p.scale / (sum + 1e-20F) : p.scale;
    ids[row * kMoeMaxTopK + lane] = chosen;
    weights[row * kMoeMaxTopK + lane] = weight;
    p.ids[(first + row) * p.top_k + lane] = chosen;
    p.weights[(first + row) * p.top_k + lane] = weight;
    atomicOr(masks + (2 * chosen + row / 32), 1U << row % 32);
}

__global__ void __launch_bounds__(kThreads, 1) moe_route_kernel(MoeRouteParams p) {
    KIMI_SHARED(std::uint32_t, masks, 2 * kMoeMaxExperts);  // rows of each expert, 64 bits
    KIMI_SHARED(std::uint32_t, firsts, kMoeMaxExperts);     // pair
    KIMI_SHARED(float, weights, kMoeSliceRows *kMoeMaxTopK);
    KIMI_SHARED(std::uint32_t, ids, kMoeSliceRows * kMoeMaxTopK);
    KIMI_SHARED(Counts, totals, kWarps);
    grid_dependency_wait();
    grid_dependency_launch();
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned slice = blockIdx.x;
    const std::uint32_t n_rows = moe_rows_of(p.n_rows[0], slice);
    const MoePlan plan = moe_plan_of(p.plan, slice, p.top_k);
    masks[threadIdx.x] = 0;
    masks[threadIdx.x + kThreads] = 0;
    __syncthreads();
#pragma unroll 1
    for (unsigned row = warp; row < n_rows; row += kWarps)
        route_row(p, slice * kMoeSliceRows, row, masks, weights, ids);
    __syncthreads();

    // What each expert has, and what those before it have.
    const unsigned expert = threadIdx.x;
    const std::uint32_t low = masks[2 * expert], high = masks[2 * expert + 1];
    const std::uint32_t place = place_of(p, expert);
    const unsigned n =
        place == kMoeElsewhere ? 0 : static_cast<unsigned>(__popc(low) + __popc(high));
    const Counts own = {n, (n + kPairsPerTile - 1) / kPairsPerTile, n > 0, 0};
    Counts before = own;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        const Counts other = shuffled_up(before, distance);
        if (lane >= distance) before = before + other;
    }
    if (lane == 31) totals[warp] = before;
    __syncthreads();
    before = {before.pairs - own.pairs, before.tiles - own.tiles, before.groups - own.groups, 0};
    for (unsigned w = 0; w < warp; ++w) {
        const Counts other = totals[w];
        before = before + other;
    }
    if (n > 0) {
        firsts[expert] = before.pairs;
        plan.groups[before.groups] = {static_cast<std::uint64_t>(high) << 32 | low, place,
                                      before.pairs};
        for (unsigned i = 0; i < own.tiles; ++i) {
            const unsigned done = i * kPairsPerTile;
            plan.tiles[before.tiles + i] = {place, before.pairs + done,
                                            min(n - done, kPairsPerTile), 0};
        }
    }
    if (threadIdx.x == kThreads - 1) {
        plan.n_tiles[0] = before.tiles;
        plan.n_groups[0] = before.groups;
    }
    __syncthreads();
    if (threadIdx.x >= n_rows * kMoeMaxTopK || threadIdx.x % kMoeMaxTopK >= p.top_k) return;
    const unsigned row = threadIdx.x / kMoeMaxTopK;
    const std::uint32_t chosen = ids[threadIdx.x];
    if (place_of(p, chosen) == kMoeElsewhere) return;
    const std::uint32_t rows_low = masks[2 * chosen], rows_high = masks[2 * chosen + 1],
                        first = firsts[chosen];
    const std::uint64_t rows_of = static_cast<std::uint64_t>(rows_high) << 32 | rows_low;
    const auto rank = static_cast<unsigned>(__popcll(rows_of & ((std::uint64_t{1} << row) - 1)));
    const float weight = weights[threadIdx.x];
    plan.pair_row[first + rank] = row;
    plan.pair_weight[first + rank] = weight;
}

}  // namespace

void moe_route(const MoeRouteParams &p, Stream stream) {
    KIMI_CHECK(p.n_experts <= kMoeMaxExperts && p.top_k <= kMoeMaxTopK && p.top_k <= p.n_experts);
    launch({.name = "moe_route",
            .grid = {std::max(1U, moe_slices(p.max_rows))},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           moe_route_kernel, p);
}

}  // namespace kimi
