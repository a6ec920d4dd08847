// out[q] = sum over s of softmax_s(scale k_s . q) k_s[0, 512), for the slots s that row and head q
// see: absorbed attention with the ancestor mask of a draft tree. Partial results, see the header.
//
//   q [rows, heads, 576] bf16; pages of 64 tokens x 576, bf16 or fp8 planes; partials fp32.
//   sm_90, sm_120.
//
// A block takes up to 64 queries (rows x heads) of a sequence and either splits of the shared
// pages, or one row's tail. Tokens lie on the M side of the mma and queries on the N side, so that
// 8 heads fill a tile:
//
//   S^T [32 tokens, queries]   = K [32, 576] Q^T     two warps per 8 queries, each half of the 576
//   O^T [512, queries]        += V^T [512, 32] P^T   64 latents per warp, all queries
//
// Q (72 registers) and O (128) stay in registers; all else is kept in shared memory or computed
// anew. The tail is gathered token by token in the order of its row's path, as if it were stored
// contiguously, so that a row's bits are those of plain decoding; positions behind the path repeat
// its last token with probability 0, so that nothing unwritten is read. A query's sums run over the
// same numbers in the same order whatever the number of queries in the block.
//
// Bytes that must move: 1152 (bf16) or 656 (fp8) per token of the context and 1152 per query in,
// 2052 per query and part out; 2176 flops per token and query. KV is read once per 64 queries
// (again from L2), each row's tail once more. Page ids: one per 64 tokens, none within a sequence's
// first contiguous run. fp8 is rounded to bf16 after its scale.
//
// Design note, 2026-11. Shared memory 89,664 B (bf16: two stages of 32 tokens) or 94,272 B (fp8:
// two raw stages of 20,992 B and one tile that they are converted into), so one block per SM of 8
// warps with up to 254 registers. Rows of a tile are 1168 B apart, 4 banks on, so that ldmatrix
// reads 8 of them without conflicts; those of P 80 B. A stage of 64 tokens would not fit twice, and
// Q in shared memory (74 KB for 64 queries) leaves no room for KV. At 64 queries the mma take 4352
// cycles per 32 tokens (16 per mma and quarter of an SM) and shared memory about 2500; at 8 queries
// a tile is done in less than half the time that DRAM takes to deliver it to all SMs. Softmax is in
// base 2.
#include "kernels/mla_verify_paged.h"

#include <algorithm>
#include <cmath>

#include "kernels/mla_work.h"

namespace kimi {
namespace {

using namespace simt;
using namespace mla;

constexpr int kKSteps = kMlaDim / 2 / 16;  // of one warp
constexpr int kWarpLatents = kMlaLatent / kWarps;
constexpr float kLog2e = 1.44269504f;

// A thread of a block of up to 8 * NT queries. Warps 2i and 2i + 1 make the scores of queries 8i to
// 8i + 7, and with NT > 4 those of 32 + 8i to 32 + 8i + 7, each over half of the 576.
template <int NT>
struct Place {
    static constexpr int kOwn = NT > 4 ? 2 : 1;  // groups of 8 queries of a pair, at most
    int warp, lane, pair, half;
    bool scores, both, owner;
    int column;  // the first of the lane's two queries in the group whose softmax this warp makes

    // Always computed anew: registers are scarce.
    __device__ __forceinline__ Place() {
        const int thread = opaque(static_cast<int>(threadIdx.x));
        warp = thread / 32;
        lane = thread % 32;
        pair = warp / 2;
        half = warp % 2;
        scores = NT >= 4 || pair < NT;
        both = NT == 8 || pair + 4 < NT;
        owner = scores && (both || half == 0);
        column = (pair + (both ? 4 * half : 0)) * 8 + lane % 4 * 2;
    }
};

template <int NT>
using Queries = FragB[Place<NT>::kOwn][kKSteps];

template <int NT>
__device__ __forceinline__ void load_queries(const MlaVerifyParams &p, Work w, Queries<NT> &q) {
    const Place<NT> at;
    for (int j = 0; j < at.kOwn; ++j) {
        const int query = (at.pair + 4 * j) * 8 + at.lane / 4;
        const bool valid = (j == 0 ? at.scores : at.both) && query < w[kQueries];
        const Global<const bf16> from =
            p.q + (std::int64_t{w[kFirstQuery] + (valid ? query : 0)} * kMlaDim +
                   at.half * (kMlaDim / 2) + at.lane % 4 * 2);
#pragma unroll
        for (int k = 0; k < kKSteps; ++k) {
            q[j][k][0] = valid ? load_readonly<std::uint32_t>(from + k * 16) : 0U;
            q[j][k][1] = valid ? load_readonly<std::uint32_t>(from + k * 16 + 8) : 0U;
        }
    }
}

// The state of each query's softmax, in shared memory.
template <bool Fp8>
struct Softmax {
    using L = Layout<Fp8>;
    Shared<float> exchange = dynamic_shared<float>(L::kExchange, L::kExchangeBytes / 4);
    Shared<bf16> prob = dynamic_shared<bf16>(L::kProb, kMaxQueries *kProbRow);
    Shared<float> factor =
        dynamic_shared<float>(L::kFactor, kMaxQueries);  // for what has been summed so far
    Shared<int> limits = dynamic_shared<int>(L::kLimit, kMaxQueries);
    Shared<float> tops = dynamic_shared<float>(L::kTop, kMaxQueries);  // largest scores
    Shared<float> sums = dynamic_shared<float>(L::kSum, kMaxQueries);  // of exponentials
};

// Scores of tile i, as far as the warp's softmax needs them: v[m][e] is of token 16 m + lane / 4 +
// {0, 0, 8, 8} and query column + {0, 1, 0, 1}, half of the sum; the other half is in `exchange`.
template <bool Fp8, int NT>
__device__ __forceinline__ void make_scores(Shared<const bf16> tile, const Queries<NT> &q,
                                            float (&v)[2][4]) {
    const Place<NT> at;
    const Softmax<Fp8> state;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
        FragC s[at.kOwn] = {};
        const Shared<const bf16> row =
            tile + (m * 16 + at.lane % 16) * kRow + at.half * (kMlaDim / 2) + at.lane / 16 * 8;
#pragma unroll
        for (int k = 0; k < kKSteps; ++k) {
            FragA a;
            ldmatrix_x4(a, row + k * 16);
#pragma unroll
            for (int j = 0; j < at.kOwn; ++j) {
                if (j == 0 || at.both) mma_bf16(s[j], a, q[j][k]);
            }
        }
        float theirs[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const bool first = at.half == 0;
            v[m][e] = at.both && !first ? s[at.kOwn - 1][e] : s[0][e];
            theirs[e] = at.both && first ? s[at.kOwn - 1][e] : s[0][e];
        }
        if (at.both || at.half == 1) {
            store(state.exchange + at.warp * kTile * 8 + m * 128 + at.lane * 4,
                  float4{theirs[0], theirs[1], theirs[2], theirs[3]});
        }
    }
}

template <bool Fp8, int NT>
__device__ __forceinline__ void softmax_tile(float scale, int i, float (&v)[2][4]) {
    const Place<NT> at;
    const Softmax<Fp8> state;
    const int2 limit = load<int2>(state.limits + at.column);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
        const float4 other =
            load<float4>(state.exchange + (at.warp ^ 1) * kTile * 8 + m * 128 + at.lane * 4);
        const float theirs[4] = {other.x, other.y, other.z, other.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int token = i * kTile + m * 16 + at.lane / 4 + e / 2 * 8;
            const bool seen = token < (e % 2 == 0 ? limit.x : limit.y);
            v[m][e] = seen ? (v[m][e] + theirs[e]) * (scale * kLog2e) : -INFINITY;
        }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int query = at.column + j;
        const float before = state.tops[query];
        float top = fmaxf(fmaxf(v[0][j], v[0][j + 2]), fmaxf(v[1][j], v[1][j + 2]));
        for (int mask = 4; mask < 32; mask *= 2) top = fmaxf(top, __shfl_xor_sync(~0U, top, mask));
        top = fmaxf(top, before);
        const float zero = top == -INFINITY ? 0.0F : top;  // nothing seen yet
        float sum = 0;
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int e = j; e < 4; e += 2) {
                const float x = exp2_approx(v[m][e] - zero);
                sum += x;
                state.prob[query * kProbRow + m * 16 + at.lane / 4 + e / 2 * 8] = float_to_bf16(x);
            }
        }
        for (int mask = 4; mask < 32; mask *= 2) sum += __shfl_xor_sync(~0U, sum, mask);
        __syncwarp();
        if (at.lane < 4) {
            const float rescale = exp2_approx(before - zero), so_far = state.sums[query];
            state.factor[query] = rescale;
            state.tops[query] = top;
            state.sums[query] = __fmaf_rn(so_far, rescale, sum);
        }
    }
}

// out[m][n] are latents 64 warp + 16 m + lane / 4 + {0, 0, 8, 8} of queries 8 n + lane % 4 * 2 +
// {0, 1, 0, 1}.
template <bool Fp8, int NT>
__device__ __forceinline__ void accumulate(Shared<const bf16> tile, FragC (&out)[4][NT]) {
    const Place<NT> at;
    const Softmax<Fp8> state;
#pragma unroll
    for (int n = 0; n < NT; ++n) {
        const float2 rescale = load<float2>(state.factor + n * 8 + at.lane % 4 * 2);
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            out[m][n][0] *= rescale.x;
            out[m][n][1] *= rescale.y;
            out[m][n][2] *= rescale.x;
            out[m][n][3] *= rescale.y;
        }
    }
#pragma unroll
    for (int k = 0; k < kTile / 16; ++k) {
        FragB b[NT];
        const Shared<const bf16> p_row =
            state.prob + at.lane % 8 * kProbRow + k * 16 + at.lane / 8 % 2 * 8;
#pragma unroll
        for (int n = 0; n + 1 < NT; n += 2) {
            ldmatrix_x4(b[n], b[n + 1], p_row + (n + at.lane / 16) * 8 * kProbRow);
        }
        if constexpr (NT % 2 == 1) ldmatrix_x2(b[NT - 1], p_row + (NT - 1) * 8 * kProbRow);
        const Shared<const bf16> v_row = tile + (k * 16 + at.lane % 8 + at.lane / 16 * 8) * kRow +
                                         at.warp * kWarpLatents + at.lane / 8 % 2 * 8;
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            FragA a;
            ldmatrix_x4_trans(a, v_row + m * 16);
#pragma unroll
            for (int n = 0; n < NT; ++n) mma_bf16(out[m][n], a, b[n]);
        }
    }
}

template <bool Fp8, int NT>
__device__ __forceinline__ void write_out(const MlaVerifyParams &p, Work w,
                                          const FragC (&out)[4][NT]) {
    const Place<NT> at;
    const Softmax<Fp8> state;
    const std::int64_t part =
        std::int64_t{w[kSplit] + 1} * p.row_capacity * p.n_heads + w[kFirstQuery];
    // 1 / sum of every query, or 0 where there is nothing to write.
    if (threadIdx.x < kMaxQueries) {
        const int query = static_cast<int>(threadIdx.x);
        const float top = state.tops[query], sum = state.sums[query];
        const bool covered = state.limits[query] > 0 || (w[kSplit] < 0 && query < w[kQueries]);
        state.factor[query] = covered && sum != 0 ? 1.0F / sum : 0.0F;
        if (covered) p.part_lse[part + query] = sum != 0 ? top + log2_approx(sum) : -INFINITY;
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < NT; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int query = n * 8 + at.lane % 4 * 2 + e % 2;
            const float inverse = state.factor[query];
            if (inverse == 0.0F) continue;
            const Global<float> to =
                p.part_out +
                ((part + query) * kMlaLatent + at.warp * kWarpLatents + at.lane / 4 + e / 2 * 8);
#pragma unroll
            for (int m = 0; m < 4; ++m) to[m * 16] = out[m][n][e] * inverse;
        }
    }
}

// One split or tail, for up to 8 * NT queries.
template <bool Fp8, bool Sharded, int NT>
__device__ __forceinline__ void attend(const MlaVerifyParams &p, Work w) {
    using L = Layout<Fp8>;
    const Shared<std::uint8_t> stages = dynamic_shared<std::uint8_t>(0, kStages * L::kStageBytes);
    const Shared<std::uint32_t> slots = dynamic_shared<std::uint32_t>(L::kSlots, kMaxTail);
    const Shared<std::uint64_t> full = dynamic_shared<std::uint64_t>(L::kFull, kStages);
    const auto fetch = [&](int i) {
        if (threadIdx.x < 32 && i * kTile < w[kTokens]) {
            load_tile<Fp8, Sharded>(p, w, slots, i, stages + i % kStages * L::kStageBytes,
                                    full + i % kStages);
        }
    };
    for (int i = 0; i < kStages; ++i) fetch(i);
    Queries<NT> q;
    load_queries<NT>(p, w, q);
    if (threadIdx.x < kMaxQueries) {
        const Softmax<Fp8> state;
        const int query = static_cast<int>(threadIdx.x);
        state.limits[query] = limit_of<Sharded>(p, w, query);
        state.tops[query] = -INFINITY;
        state.sums[query] = 0;
    }
    __syncthreads();

    FragC out[4][NT] = {};
#pragma unroll 1
    for (int i = 0; i * kTile < w[kTokens]; ++i) {
        mbarrier_wait(full + i % kStages, static_cast<std::uint32_t>(i / kStages + w[kParity]) % 2);
        const auto tile = [&] {
            const int offset = opaque(Fp8 ? L::kTileAt : i % kStages * L::kStageBytes);
            return dynamic_shared<const bf16>(static_cast<std::uint32_t>(offset), kTileBytes / 2);
        };
        if constexpr (Fp8) {
            convert_tile(stages + i % kStages * L::kStageBytes,
                         dynamic_shared<bf16>(L::kTileAt, kTileBytes / 2));
            __syncthreads();
            fetch(i + kStages);
        }
        const Place<NT> at;
        if (at.scores) {
            float v[2][4];
            make_scores<Fp8, NT>(tile(), q, v);
            bar_sync(1 + at.pair, 64);
            if (at.owner) softmax_tile<Fp8, NT>(p.scale, i, v);
        }
        __syncthreads();
        accumulate<Fp8, NT>(tile(), out);
        __syncthreads();
        if constexpr (!Fp8) fetch(i + kStages);
    }
    write_out<Fp8, NT>(p, w, out);
}

template <bool Fp8, bool Sharded>
__global__ void __launch_bounds__(kThreads, 1) mla_verify_kernel(MlaVerifyParams p) {
    grid_dependency_wait();
    if (blockIdx.y >= p.step.n_sequences[0]) return;
    const StepSequence sequence = p.step.sequences[blockIdx.y];
    const Work w = dynamic_shared<int>(Layout<Fp8>::kWork, kFields);
    const int block = static_cast<int>(blockIdx.x),
              tail = block - p.grid.groups * p.grid.split_blocks();
    const bool any = tail >= 0 ? begin_tail<Fp8, Sharded>(p, sequence, tail, w)
                               : begin_splits<Sharded>(p, sequence, block, w);
    if (!any) return;
    if (threadIdx.x == 0) {
        w[kFirstPage] = static_cast<int>(sequence.first_page);
        w[kRunPages] = static_cast<int>(sequence.run_pages);
        w[kParity] = 0;
        const Shared<std::uint64_t> full =
            dynamic_shared<std::uint64_t>(Layout<Fp8>::kFull, kStages);
        for (int s = 0; s < kStages; ++s) mbarrier_init(full + s, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    while (w[kSplit] < w[kEndSplit]) {
        if (w[kSplit] >= 0 && w[kTokens] <= 0) {
        } else if (w[kQueries] <= 8) {
            attend<Fp8, Sharded, 1>(p, w);
        } else if (w[kQueries] <= 16) {
            attend<Fp8, Sharded, 2>(p, w);
        } else if (w[kQueries] <= 32) {
            attend<Fp8, Sharded, 4>(p, w);
        } else if (w[kQueries] <= 40) {
            attend<Fp8, Sharded, 5>(p, w);
        } else if (w[kQueries] <= 48) {
            attend<Fp8, Sharded, 6>(p, w);
        } else {
            attend<Fp8, Sharded, 8>(p, w);
        }
        __syncthreads();
        if (threadIdx.x == 0) advance(w);
        __syncthreads();
    }
}

}  // namespace

int mla_splits(int n_sms, int n_heads, int max_sequences) {
    const int wave = n_heads > 32 ? n_sms / 2 : n_sms;
    return std::max(8, wave / max_sequences);
}

MlaGrid mla_grid(const MlaBucket &bucket, int splits, int n_sms, const MlaFold &fold) {
    const auto ceil_div = [](int a, int b) { return (a + b - 1) / b; };
    const int queries = bucket.rows * bucket.n_heads;
    MlaGrid grid;
    grid.splits = splits;
    grid.sequences = bucket.sequences;
    grid.groups =
        ceil_div(queries, fold.queries_per_block > 0 ? fold.queries_per_block : kMaxQueries);
    grid.queries_per_block =
        fold.queries_per_block > 0 ? fold.queries_per_block : ceil_div(queries, grid.groups);
    grid.tails = bucket.rows * ceil_div(bucket.n_heads, grid.queries_per_block);
    grid.launched_splits = std::min(splits, mla_shared_pages(bucket.context));
    if (fold.splits_per_block > 0) {
        grid.splits_per_block = fold.splits_per_block;
        return grid;
    }
    // A launch takes as long as its waves do; of equals, more and shorter blocks.
    int best = 1, best_time = 0;
    for (int n = 1; n <= grid.launched_splits; ++n) {
        grid.splits_per_block = n;
        const int waves = ceil_div(grid.blocks(), n_sms);
        if (waves > 3 && n < grid.launched_splits) continue;
        if (best_time > 0 && waves * n >= best_time) continue;
        best = n;
        best_time = waves * n;
    }
    grid.splits_per_block = best;
    return grid;
}

std::size_t mla_shared_bytes(bool fp8) {
    return static_cast<std::size_t>(fp8 ? Layout<true>::kBytes : Layout<false>::kBytes);
}

void mla_verify_paged(const MlaVerifyParams &p, Stream stream) {
    const auto kernel = [&] {
        if (p.fresh) return p.fp8 ? mla_verify_kernel<true, true> : mla_verify_kernel<false, true>;
        return p.fp8 ? mla_verify_kernel<true, false> : mla_verify_kernel<false, false>;
    };
    launch({.name = "mla_verify_paged",
            .grid = {static_cast<unsigned>(p.grid.groups * p.grid.split_blocks() + p.grid.tails),
                     static_cast<unsigned>(p.grid.sequences)},
            .block = {kThreads},
            .shared_bytes = mla_shared_bytes(p.fp8),
            .stream = stream,
            .dependent = true},
           kernel(), p);
}

}  // namespace kimi
