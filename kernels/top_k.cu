// A block sorts the keys of 2048 tokens (bitonic, in shared memory) and keeps k; the second launch
// sorts what the blocks of a row kept, 2048 at a time.
#include "kernels/top_k.h"

#include <cmath>

#include "base/error.h"
#include "kernels/ordered_key.h"
#include "kernels/reduce.h"

namespace kimi {
namespace {

using namespace simt;

using Key = unsigned long long;

constexpr int kThreads = 1024, kKeys = static_cast<int>(kTopKChunk);
static_assert(kKeys == 2 * kThreads);

// Best first.
__device__ __forceinline__ void sort(Shared<Key> keys) {
#pragma unroll 1
    for (int size = 2; size <= kKeys; size *= 2) {
#pragma unroll 1
        for (int distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            const int i = static_cast<int>(threadIdx.x);
            const int low = i / distance * 2 * distance + i % distance, high = low + distance;
            const Key a = keys[low], b = keys[high];
            if ((a < b) == ((low & size) == 0)) {
                keys[low] = b;
                keys[high] = a;
            }
        }
    }
    __syncthreads();
}

__global__ void __launch_bounds__(kThreads) top_k_part_kernel(TopKParams p) {
    KIMI_SHARED(Key, keys, kKeys);
    KIMI_SHARED(double, scratch, 32);
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t row = blockIdx.y;
    if (row >= p.n_rows[0]) return;
    const Global<const float> logits = p.logits + std::int64_t{row} * p.vocab;
    float logit[2];
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
        const unsigned at = threadIdx.x + i * kThreads, token = blockIdx.x * kTopKChunk + at;
        logit[i] = -INFINITY;
        if (token < p.vocab) logit[i] = load_readonly<float>(logits + token);
        const bool nan = logit[i] != logit[i];
        keys[at] = token < p.vocab ? token_key(nan ? -INFINITY : logit[i], token) : 0;
    }
    sort(keys);
    const Key best = keys[0];
    const float top = unordered(static_cast<std::uint32_t>(best >> 32));
    const float zero = top == -INFINITY ? 0.0F : top;
    double sum = double{expf(logit[0] - zero)} + double{expf(logit[1] - zero)};
    const auto add = [](double a, double b) { return a + b; };
    sum = block_reduce(sum, 0.0, scratch, add);
    const std::int64_t part = std::int64_t{row} * gridDim.x + blockIdx.x;
    if (threadIdx.x < p.k) {
        const Key key = keys[threadIdx.x];
        p.part_keys[part * p.k + threadIdx.x] = key;
    }
    if (threadIdx.x == 0) {
        p.part_sums[2 * part] = top;
        p.part_sums[2 * part + 1] = sum;
    }
}

__global__ void __launch_bounds__(kThreads) top_k_merge_kernel(TopKParams p) {
    KIMI_SHARED(Key, keys, kKeys);
    KIMI_SHARED(double, log_sum, 1);
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t row = blockIdx.x, chunks = top_k_chunks(p.vocab), n = chunks * p.k;
    if (row >= p.n_rows[0]) return;
    const Global<const Key> from = p.part_keys + std::int64_t{row} * n;
    for (std::uint32_t at = threadIdx.x; at < kTopKChunk; at += kThreads) {
        Key key = 0;
        if (at < n) key = from[at];
        keys[at] = key;
    }
    sort(keys);
    for (std::uint32_t done = kTopKChunk; done < n; done += kTopKChunk - p.k) {
        for (std::uint32_t at = p.k + threadIdx.x; at < kTopKChunk; at += kThreads) {
            const std::uint32_t next = done + at - p.k;
            Key key = 0;
            if (next < n) key = from[next];
            keys[at] = key;
        }
        sort(keys);
    }
    const Key best = keys[0];
    const double top = unordered(static_cast<std::uint32_t>(best >> 32));
    if (threadIdx.x < 32) {
        double sum = 0;
        for (std::uint32_t i = threadIdx.x; i < chunks; i += 32) {
            const Global<const double> part = p.part_sums + 2 * (std::int64_t{row} * chunks + i);
            const double part_top = part[0], part_sum = part[1];
            if (part_sum != 0) sum += part_sum * exp(part_top - top);
        }
        sum = warp_reduce(sum, [](double a, double b) { return a + b; });
        if (threadIdx.x == 0) log_sum[0] = top + log(sum);
    }
    __syncthreads();
    if (threadIdx.x >= p.k) return;
    const Key key = keys[threadIdx.x];
    const double total = log_sum[0], logit = unordered(static_cast<std::uint32_t>(key >> 32));
    const std::int64_t to = std::int64_t{row} * p.k + threadIdx.x;
    p.token[to] = static_cast<std::int32_t>(token_of(key));
    p.log_probability[to] = logit - total;
}

}  // namespace

void top_k(const TopKParams &p, Stream stream) {
    KIMI_CHECK(p.k > 0 && p.k <= kTopKMax && p.k <= p.vocab);
    if (p.max_rows == 0) return;
    launch({.name = "top_k_part",
            .grid = {top_k_chunks(p.vocab), p.max_rows},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           top_k_part_kernel, p);
    launch({.name = "top_k_merge",
            .grid = {p.max_rows},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           top_k_merge_kernel, p);
}

}  // namespace kimi
