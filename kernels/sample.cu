// One block per row. What is left is described by a key: the order of floats, then lower id first.
// The key of the last token that a limit (a count, or a share of the mass) lets through is found
// digit by digit from the top, with a histogram of counts and masses of 11 bits each; it ends as
// soon as one token is meant. Masses are exp((logit - top) / temperature) * 2^36.
#include "kernels/sample.h"

#include <cmath>

#include "base/error.h"
#include "kernels/load_struct.h"
#include "kernels/ordered_key.h"
#include "kernels/philox.h"
#include "kernels/reduce.h"

namespace kimi {
namespace {

using namespace simt;

using Wide = unsigned long long;

constexpr int kThreads = 1024, kDigit = 11, kBins = 1 << kDigit;
constexpr float kNear = 1e-3F;  // more than fp32 noise can be off

__device__ __forceinline__ Wide larger(Wide a, Wide b) {
    return a > b ? a : b;
}

struct Row {
    Global<const float> logits;
    std::uint32_t vocab;
    double inverse;  // 1 / temperature
    float top;       // the largest logit

    __device__ __forceinline__ Wide mass(float logit) const {
        return static_cast<Wide>(expf(static_cast<float>((logit - top) * inverse)) * 0x1p36F);
    }
    // f(logit, token) for all tokens, a thread's share.
    template <typename F>
    __device__ __forceinline__ void each(const F &f) const {
        for (std::uint32_t i = 4 * threadIdx.x; i < vocab; i += 4 * kThreads) {
            const float4 v = load_readonly<float4>(logits + i);
            f(v.x, i);
            f(v.y, i + 1);
            f(v.z, i + 2);
            f(v.w, i + 3);
        }
    }
};

struct Scratch {
    Shared<std::uint32_t> counts;  // [kBins]
    Shared<Wide> masses;           // [kBins]
    Shared<Wide> reduce;           // [32]
    Shared<Wide> found;            // [3]: a bin, the sum above it, its count
};

// The bin in which the sum over the bins from the top reaches `limit`, and the sum above it, to all
// threads. A thread has two neighbouring bins.
__device__ __forceinline__ void find_bin(const Scratch &s, bool by_mass, Wide above, Wide limit) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int bin = kBins - 1 - 2 * static_cast<int>(threadIdx.x);
    const auto weight = [&](int at) -> Wide {
        const std::uint32_t count = s.counts[at];
        const Wide mass = s.masses[at];
        return by_mass ? mass : count;
    };
    const Wide first = weight(bin), own = first + weight(bin - 1);
    Wide sum = own;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        const Wide other = __shfl_up_sync(~0U, sum, distance);
        if (lane >= distance) sum += other;
    }
    if (lane == 31) s.reduce[warp] = sum;
    __syncthreads();
    sum += above - own;
    for (unsigned w = 0; w < warp; ++w) sum += s.reduce[w];
    const bool in_first = sum + first >= limit;
    if (sum < limit && sum + own >= limit) {
        const int at = in_first ? bin : bin - 1;
        const std::uint32_t count = s.counts[at];
        s.found[0] = static_cast<Wide>(at);
        s.found[1] = in_first ? sum : sum + first;
        s.found[2] = count;
    }
    __syncthreads();
}

// The smallest key such that the keys from it on number, or weigh, at least `limit`; only keys from
// `floor` on count. They do in all.
__device__ __forceinline__ Wide find_last(const Row &row, const Scratch &s, Wide floor,
                                          bool by_mass, Wide limit) {
    Wide prefix = 0, above = 0;
    int shift = 64;
#pragma unroll 1
    while (shift > 0) {
        const int width = min(shift, kDigit);
        shift -= width;
        for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) {
            s.counts[i] = 0;
            s.masses[i] = 0;
        }
        __syncthreads();
        row.each([&](float logit, std::uint32_t token) {
            const Wide key = token_key(logit, token);
            const bool inside = shift + width == 64 || key >> (shift + width) == prefix;
            if (key < floor || !inside) return;
            const int bin = static_cast<int>(key >> shift & ((Wide{1} << width) - 1));
            atomicAdd(s.counts + bin, 1U);
            if (by_mass) atomicAdd(s.masses + bin, row.mass(logit));
        });
        __syncthreads();
        find_bin(s, by_mass, above, limit);
        const Wide bin = s.found[0], count = s.found[2];
        above = s.found[1];
        prefix = prefix << width | bin;
        if (count == 1) break;
    }
    return larger(floor, prefix << shift);
}

__global__ void __launch_bounds__(kThreads) sample_kernel(SampleParams p) {
    KIMI_SHARED(std::uint32_t, counts, kBins);
    KIMI_SHARED(Wide, masses, kBins);
    KIMI_SHARED(Wide, reduce, 32);
    KIMI_SHARED(Wide, found, 3);
    grid_dependency_wait();
    grid_dependency_launch();
    if (blockIdx.x >= p.n_rows[0]) return;
    const SampleOptions options = load_struct<SampleOptions>(p.options + blockIdx.x);
    const std::uint64_t position = std::uint64_t{p.position[blockIdx.x]} + 1;
    Row row{p.logits + std::int64_t{blockIdx.x} * p.vocab, p.vocab, 0, 0};
    const Scratch s{counts, masses, reduce, found};
    const auto block_max = [&](Wide value) {
        __syncthreads();
        return block_reduce(value, Wide{0}, s.reduce, larger);
    };

    Wide best = 0;
    bool finite = true;
    row.each([&](float logit, std::uint32_t token) {
        finite = finite && logit - logit == 0;
        best = larger(best, token_key(logit, token));
    });
    const bool broken = block_max(finite ? 0 : 1) != 0;
    best = block_max(best);
    const auto choose = [&](Wide key) {
        if (threadIdx.x == 0)
            p.token[blockIdx.x] = broken ? -1 : static_cast<std::int32_t>(token_of(key));
    };
    if (broken || options.temperature == 0) {
        choose(best);
        return;
    }
    row.inverse = 1.0 / options.temperature;
    const float top = row.logits[token_of(best)];
    row.top = top;

    Wide floor = 0;
    if (options.top_k > 0 && options.top_k < p.vocab)
        floor = find_last(row, s, floor, false, options.top_k);
    if (options.top_p > 0 && options.top_p < 1) {
        Wide mass = 0;
        row.each([&](float logit, std::uint32_t token) {
            if (token_key(logit, token) >= floor) mass += row.mass(logit);
        });
        __syncthreads();
        const auto add = [](Wide a, Wide b) { return a + b; };
        const Wide total = block_reduce(mass, Wide{0}, s.reduce, add);
        const auto limit =
            larger(1, static_cast<Wide>(ceil(options.top_p * static_cast<double>(total))));
        floor = find_last(row, s, floor, true, limit);
    }
    const double least =
        options.min_p > 0 ? top * row.inverse + log(double{options.min_p}) : -INFINITY;

    // The candidates, then the winner: its noisy logit, in fp64.
    const auto left = [&](float logit, std::uint32_t token) {
        return token_key(logit, token) >= floor && logit * row.inverse >= least;
    };
    const auto noisy = [&](float logit, std::uint32_t token) {
        return static_cast<float>(logit * row.inverse) +
               gumbel_approx(philox_word(options.seed, position, token));
    };
    Wide near = 0;
    row.each([&](float logit, std::uint32_t token) {
        if (left(logit, token)) near = larger(near, ordered(noisy(logit, token)));
    });
    const auto nearest = static_cast<std::uint32_t>(block_max(near));
    const float bar = unordered(nearest) - kNear;
    double highest = -INFINITY;
    std::uint32_t chosen = 0;
    row.each([&](float logit, std::uint32_t token) {
        if (!left(logit, token) || noisy(logit, token) < bar) return;
        const double value =
            logit * row.inverse + gumbel(philox_word(options.seed, position, token));
        if (value > highest) {
            highest = value;
            chosen = token;
        }
    });
    // The highest value, then the lowest token that has it.
    const auto value_bits = bits<Wide>(highest);
    const Wide value_key = value_bits >> 63 ? ~value_bits : value_bits | Wide{1} << 63;
    const Wide winner = block_max(value_key);
    choose(block_max(value_key == winner && highest > -INFINITY ? static_cast<Wide>(~chosen) : 0));
}

}  // namespace

void sample(const SampleParams &p, Stream stream) {
    KIMI_CHECK(p.vocab > 0 && p.vocab % 4 == 0);
    if (p.max_rows == 0) return;
    launch({.name = "sample",
            .grid = {p.max_rows},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           sample_kernel, p);
}

}  // namespace kimi
