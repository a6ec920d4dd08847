#include "tools/kernel-bench/plain_attention.h"

#include <cmath>

#include "kernels/kv_layout.h"
#include "kernels/reduce.h"

namespace kimi::bench {
namespace {

using namespace simt;

constexpr int kThreads = 128, kLatents = kMlaLatent / kThreads;

__global__ void __launch_bounds__(kThreads) plain_attention_kernel(PlainAttentionParams p) {
    KIMI_SHARED(float, query, kMlaDim);
    KIMI_SHARED(float, prob, kThreads);
    KIMI_SHARED(float, scratch, 32);
    const int thread = static_cast<int>(threadIdx.x);
    const std::uint32_t split = blockIdx.x, head = blockIdx.y, row = blockIdx.z;
    const bf16 *q = p.q + (std::size_t{row} * p.heads + head) * kMlaDim;
    for (int i = thread; i < kMlaDim; i += kThreads) query[i] = bf16_to_float(q[i]);
    const std::uint32_t length = (p.context + p.splits - 1) / p.splits;
    const std::uint32_t begin = split * length, end = min(begin + length, p.context);
    float top = -INFINITY, sum = 0, out[kLatents] = {};
    for (std::uint32_t first = begin; first < end; first += kThreads) {
        __syncthreads();
        float score = -INFINITY;
        const std::uint32_t at = first + threadIdx.x;
        if (at < end) {
            const bf16 *key = p.kv + std::size_t{p.table[at]} * kMlaDim;
            float dot = 0;
            for (int i = 0; i < kMlaDim; ++i) dot = fmaf(query[i], bf16_to_float(key[i]), dot);
            score = dot * p.scale * 1.44269504F;
        }
        const auto larger = [](float a, float b) { return fmaxf(a, b); };
        const float best = fmaxf(top, block_reduce(score, -INFINITY, scratch, larger));
        const float rescale = exp2_approx(top - best), weight = exp2_approx(score - best);
        top = best;
        prob[thread] = weight;
        __syncthreads();
        sum = sum * rescale +
              block_reduce(weight, 0.0F, scratch, [](float a, float b) { return a + b; });
        for (int i = 0; i < kLatents; ++i) out[i] *= rescale;
        const int n = static_cast<int>(min(end - first, static_cast<std::uint32_t>(kThreads)));
        for (int i = 0; i < n; ++i) {
            const bf16 *value =
                p.kv + std::size_t{p.table[first + static_cast<unsigned>(i)]} * kMlaDim;
            for (int j = 0; j < kLatents; ++j)
                out[j] = fmaf(prob[i], bf16_to_float(value[thread + j * kThreads]), out[j]);
        }
    }
    const std::size_t query_at = (std::size_t{split} * p.rows + row) * p.heads + head;
    for (int j = 0; j < kLatents; ++j)
        p.part_out[query_at * kMlaLatent + thread + j * kThreads] = out[j] / sum;
    if (thread == 0) p.part_lse[query_at] = top + log2_approx(sum);
    if (thread == 0 && head == 0 && split == 0) p.n_parts[row] = p.splits;
}

}  // namespace

void plain_attention(const PlainAttentionParams &p, Stream stream) {
    launch({.name = "plain_attention",
            .grid = {p.splits, p.heads, p.rows},
            .block = {kThreads},
            .stream = stream},
           plain_attention_kernel, p);
}

}  // namespace kimi::bench
