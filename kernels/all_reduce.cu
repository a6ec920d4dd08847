// A block makes a row, 8 columns per thread. All blocks wait for those of the same rows on the
// other ranks, so no more rows than blocks fit on the device at once; the next kernel of the stream
// starts only once all of them run.
#include "kernels/all_reduce.h"

#include "base/error.h"
#include "kernels/reduce.h"

namespace kimi {
namespace {

using namespace simt;

constexpr unsigned kMaxThreads = 1024;

struct Sum {
    float v[8];
};
__device__ __forceinline__ void add_to(Sum &sum, const uint4 &pairs) {
    const std::uint32_t words[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = unpack_bf16(words[i]);
        sum.v[2 * i] += pair.x;
        sum.v[2 * i + 1] += pair.y;
    }
}
__device__ __forceinline__ uint4 narrowed(const Sum &s) {
    return {pack_bf16(s.v[0], s.v[1]), pack_bf16(s.v[2], s.v[3]), pack_bf16(s.v[4], s.v[5]),
            pack_bf16(s.v[6], s.v[7])};
}

// Tells all ranks that this row is ready, and waits until it is on all of them. Whether it is.
__device__ __forceinline__ bool meet(const AllReduceParams &p, std::uint32_t shot,
                                     std::uint32_t generation) {
    KIMI_SHARED(std::uint32_t, late, 1);
    const std::uint32_t peer = threadIdx.x, row = blockIdx.x;
    if (threadIdx.x == 0) late[0] = 0;
    __syncthreads();
    if (peer < p.n_ranks) {
        const auto flag = [&](std::uint32_t owner, std::uint32_t from) {
            return p.buffer[owner].flags + ((shot * p.n_ranks + from) * p.buffer_rows + row);
        };
        __threadfence_system();
        store_release_system(flag(peer, p.rank), generation);
        const std::uint64_t start = global_timer_ns();
        while (load_acquire_system<std::uint32_t>(flag(p.rank, peer)) - generation > 1) {
            if (global_timer_ns() - start < p.timeout_ns) continue;
            atomicExch(late, 1U);
            atomicExch(p.failed, 1 + peer);
            break;
        }
    }
    __syncthreads();
    const std::uint32_t is_late = late[0];
    __syncthreads();
    return is_late == 0;
}

// The row's sum over the ranks, of the thread's 8 columns.
template <bool TwoShots>
__device__ __forceinline__ bool reduce_row(const AllReduceParams &p, std::uint32_t generation,
                                           Sum &sum) {
    const std::uint32_t column = 8 * threadIdx.x;
    const bool inside = column < p.width;
    const std::int64_t at =
        (std::int64_t{generation % 2} * p.buffer_rows + blockIdx.x) * p.width + column;
    if (inside) {
        const Global<const float> from = p.partial + (std::int64_t{blockIdx.x} * p.width + column);
        const auto a = load_readonly<float4>(from), b = load_readonly<float4>(from + 4);
        const Sum own = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
        store(p.buffer[p.rank].partial + at, narrowed(own));
    }
    if (!meet(p, 0, generation)) return false;
    const std::uint32_t part = p.width / p.n_ranks;
    if (inside && (!TwoShots || column / part == p.rank)) {
        uint4 pairs[kAllReduceMaxRanks];
#pragma unroll
        for (std::uint32_t i = 0; i < kAllReduceMaxRanks; ++i) {
            if (i < p.n_ranks) pairs[i] = load_volatile<uint4>(p.buffer[i].partial + at);
        }
        sum = {};
#pragma unroll
        for (std::uint32_t i = 0; i < kAllReduceMaxRanks; ++i) {
            if (i < p.n_ranks) add_to(sum, pairs[i]);
        }
    }
    uint4 rounded = narrowed(sum);
    if constexpr (TwoShots) {
        if (inside && column / part == p.rank) store(p.buffer[p.rank].sum + at, rounded);
        if (!meet(p, 1, generation)) return false;
        if (inside) rounded = load_volatile<uint4>(p.buffer[column / part].sum + at);
    }
    sum = {};
    add_to(sum, rounded);
    return true;
}

template <bool TwoShots>
__global__ void __launch_bounds__(kMaxThreads) all_reduce_kernel(AllReduceParams p) {
    KIMI_SHARED(float, scratch, 32);
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t calls = p.generation[0];
    const std::uint32_t column = 8 * threadIdx.x;
    Sum sum = {};
    const std::uint32_t n_rows = p.n_rows[0];
    const bool arrived = blockIdx.x < n_rows && reduce_row<TwoShots>(p, calls + 1, sum);
    if (n_rows == 0 && blockIdx.x == 0) meet(p, 0, calls + 1);  // what protects the halves
    if (arrived) {
        const bool inside = column < p.width;
        const std::int64_t at = std::int64_t{blockIdx.x} * p.width + column;
        float squares = 0;
        if (inside) {
            const auto a = load<float4>(p.x + at), b = load<float4>(p.x + (at + 4));
            const Sum x = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                sum.v[i] += x.v[i];
                squares = fmaf(sum.v[i], sum.v[i], squares);
            }
            store(p.x + at, float4{sum.v[0], sum.v[1], sum.v[2], sum.v[3]});
            store(p.x + (at + 4), float4{sum.v[4], sum.v[5], sum.v[6], sum.v[7]});
        }
        if (p.norm) {
            const auto add = [](float a, float b) { return a + b; };
            const float mean =
                block_reduce(squares, 0.0F, scratch, add) / static_cast<float>(p.width);
            const float factor = 1.0F / sqrtf(mean + p.eps);
            if (inside) {
                Sum weight = {};
                add_to(weight, load_readonly<uint4>(p.norm + column));
#pragma unroll
                for (int i = 0; i < 8; ++i) sum.v[i] *= factor * weight.v[i];
                store(p.y + at, narrowed(sum));
            }
        }
    }
    // The last block counts the call.
    if (threadIdx.x > 0 || atomicAdd(p.generation + 1, 1U) + 1 < gridDim.x) return;
    atomicExch(p.generation + 1, 0U);
    atomicExch(p.generation, calls + 1);
}

}  // namespace

void all_reduce(const AllReduceParams &p, Stream stream) {
    KIMI_CHECK(p.width > 0 && p.width % 64 == 0 && p.width <= 8 * kMaxThreads);
    KIMI_CHECK(p.n_ranks > 0 && p.n_ranks <= kAllReduceMaxRanks && p.rank < p.n_ranks);
    KIMI_CHECK(p.width % (8 * p.n_ranks) == 0 && p.max_rows <= p.buffer_rows);
    if (p.max_rows == 0) return;
    launch({.name = p.two_shots ? "all_reduce_two_shots" : "all_reduce_one_shot",
            .grid = {p.max_rows},
            .block = {(p.width / 8 + 31) / 32 * 32},
            .stream = stream,
            .dependent = true},
           p.two_shots ? all_reduce_kernel<true> : all_reduce_kernel<false>, p);
}

}  // namespace kimi
