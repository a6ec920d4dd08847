// Design note, 2026-11. A block takes up to 64 queries (rows x heads of one KV head) and a split of
// the context, or the block's own rows. Queries lie on the M side of the mma: 16 per warp, so that
// a warp needs nothing from the others but the loads.
//
//   S [16, 64] = Q [16, dim] K^T      P = 2^(S - max)      O [16, dim] += P [16, 64] V
//
// Two stages of 64 tokens, 256 dim + 2048 B each: 69,632 B at dim 128, one block of 4 warps per SM,
// two at dim 64. Rows are 16 B longer than dim, so that ldmatrix has no bank conflicts. Bytes that
// must move: 4 dim per token of the context and KV head, from DRAM once per 64 queries.
#include "kernels/draft_attend.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/fragments.h"
#include "kernels/load_struct.h"

namespace kimi {
namespace {

using namespace simt;

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kTile = static_cast<int>(kDraftTile), kQueries = 16 * kWarps, kStages = 2;
constexpr float kLog2e = 1.44269504F;

template <int Dim>
struct Layout {
    static constexpr int kRow = Dim + 8;
    static constexpr int kPlane = kTile * kRow;  // elements of keys, and of values
    static constexpr int kBytes = kStages * 2 * kPlane * 2;
};

// What a block reads: positions [begin, end), in tiles from tile * 64 on.
struct Range {
    std::uint32_t first_tile, end_tile, begin, end;
};

template <int Dim>
__device__ __forceinline__ void load_tile(const DraftAttendParams &p, const DraftSpan &span,
                                          const Range &range, bool own_rows, std::uint32_t tile,
                                          int stage) {
    using L = Layout<Dim>;
    const Shared<bf16> keys =
        dynamic_shared<bf16>(static_cast<unsigned>(stage * 2 * L::kPlane * 2), 2 * L::kPlane);
    constexpr int kChunks = Dim / 8;
    const std::int64_t kv_dim = std::int64_t{p.n_kv_heads} * Dim;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kChunks; i += kThreads) {
        const int token = i / kChunks, column = i % kChunks * 8;
        const std::uint32_t position = tile * kDraftTile + static_cast<unsigned>(token);
        const bool valid = position >= range.begin && position < range.end;
        std::int64_t entry = 0;
        if (valid && own_rows) {
            entry = span.first_row + position;
        } else if (valid && p.pages) {
            const std::uint32_t page = p.pages[std::int64_t{blockIdx.z} * p.pages_stride + tile];
            entry = std::int64_t{page} * kDraftTile + token;
        } else if (valid) {
            entry = std::int64_t{span.ring} * p.ring_slots + position % p.ring_slots;
        }
        const Global<const bf16> from =
            (own_rows ? p.block : p.context) +
            (2 * entry * kv_dim + blockIdx.y % p.n_kv_heads * Dim + column);
        const Shared<bf16> to = keys + (token * L::kRow + column);
        cp_async<16>(to, from, valid ? 16 : 0);
        cp_async<16>(to + L::kPlane, from + kv_dim, valid ? 16 : 0);
    }
}

template <int Dim>
__global__ void __launch_bounds__(kThreads) draft_attend_kernel(DraftAttendParams p) {
    using L = Layout<Dim>;
    constexpr int kSteps = Dim / 16;
    grid_dependency_wait();
    grid_dependency_launch();
    if (blockIdx.z >= p.n_sequences[0]) return;
    const DraftSpan span = load_struct<DraftSpan>(p.sequences + blockIdx.z);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4, t = lane % 4;
    const int group = static_cast<int>(p.n_heads / p.n_kv_heads),
              n_queries = static_cast<int>(span.n_rows) * group;
    const int first_query = static_cast<int>(blockIdx.y / p.n_kv_heads) * kQueries;
    if (first_query >= n_queries) return;

    // In sliding layers the first row sees the most of the past.
    std::uint32_t begin = span.begin;
    if (p.window > 0 && span.first_position >= p.window)
        begin = max(begin, span.first_position - p.window + 1);
    const bool own_rows = blockIdx.x == 0;
    const std::uint32_t base_tile = begin / kDraftTile;
    const std::uint32_t n_tiles =
        begin < span.first_position ? (span.first_position - 1) / kDraftTile - base_tile + 1 : 0;
    const std::uint32_t length = draft_tiles_per_split(n_tiles, p.splits);
    Range range = {0, (span.n_rows + kDraftTile - 1) / kDraftTile, 0, span.n_rows};
    if (!own_rows) {
        range = {base_tile + (blockIdx.x - 1) * length,
                 base_tile + min(blockIdx.x * length, n_tiles), begin, span.first_position};
        if (range.first_tile >= range.end_tile) return;
    } else if (blockIdx.y == 0) {
        for (std::uint32_t row = threadIdx.x; row < span.n_rows; row += kThreads) {
            p.n_parts[span.first_row + row] = 1 + (n_tiles + length - 1) / length;
        }
    }

    // Queries g and g + 8 of the warp: row and head.
    int row[2], head[2];
    bool valid[2];
    Global<const bf16> from[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int query = first_query + warp * 16 + g + 8 * j;
        valid[j] = query < n_queries;
        row[j] = valid[j] ? query / group : 0;
        head[j] =
            static_cast<int>(blockIdx.y % p.n_kv_heads) * group + (valid[j] ? query % group : 0);
        from[j] =
            p.q + ((std::int64_t{span.first_row} + row[j]) * p.n_heads + head[j]) * Dim + 2 * t;
    }
    FragA q[kSteps];
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
        q[k] = frag_a(load_readonly<std::uint32_t>(from[0] + 16 * k),
                      load_readonly<std::uint32_t>(from[1] + 16 * k),
                      load_readonly<std::uint32_t>(from[0] + (16 * k + 8)),
                      load_readonly<std::uint32_t>(from[1] + (16 * k + 8)));
    }

    const float scale = kLog2e / sqrtf(static_cast<float>(Dim));
    FragC out[Dim / 8] = {};
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    load_tile<Dim>(p, span, range, own_rows, range.first_tile, 0);
    cp_async_commit();
    for (std::uint32_t tile = range.first_tile; tile < range.end_tile; ++tile) {
        const int stage = static_cast<int>((tile - range.first_tile) % kStages);
        if (tile + 1 < range.end_tile)
            load_tile<Dim>(p, span, range, own_rows, tile + 1, 1 - stage);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        const Shared<const bf16> keys =
            dynamic_shared<bf16>(static_cast<unsigned>(stage * 2 * L::kPlane * 2), 2 * L::kPlane);
        FragC s[kTile / 8] = {};
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
#pragma unroll
            for (int n = 0; n < kTile / 8; n += 2) {
                FragB b0, b1;
                ldmatrix_x4(b0, b1,
                            keys + ((n * 8 + lane % 8 + lane / 16 * 8) * L::kRow + k * 16 +
                                    lane / 8 % 2 * 8));
                mma_bf16(s[n], q[k], b0);
                mma_bf16(s[n + 1], q[k], b1);
            }
        }
        float rescale[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            // Positions [first, end) are visible to this query.
            const std::uint32_t position = span.first_position + static_cast<unsigned>(row[j]);
            std::uint32_t first = range.begin;
            if (!own_rows && p.window > 0 && position >= p.window)
                first = max(first, position - p.window + 1);
            float best = top[j];
#pragma unroll
            for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
                for (int e = 2 * j; e < 2 * j + 2; ++e) {
                    const std::uint32_t at =
                        tile * kDraftTile + static_cast<unsigned>(n * 8 + 2 * t + e % 2);
                    s[n][e] = at >= first && at < range.end ? s[n][e] * scale : -INFINITY;
                    best = fmaxf(best, s[n][e]);
                }
            }
            best = fmaxf(best, __shfl_xor_sync(~0U, best, 1));
            best = fmaxf(best, __shfl_xor_sync(~0U, best, 2));
            const float zero = best == -INFINITY ? 0.0F : best;
            rescale[j] = exp2_approx(top[j] - zero);
            top[j] = best;
            sum[j] *= rescale[j];
#pragma unroll
            for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
                for (int e = 2 * j; e < 2 * j + 2; ++e) {
                    s[n][e] = exp2_approx(s[n][e] - zero);
                    sum[j] += s[n][e];
                }
            }
        }
#pragma unroll
        for (int n = 0; n < Dim / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) out[n][e] *= rescale[e / 2];
        }
#pragma unroll
        for (int k = 0; k < kTile / 16; ++k) {
            const FragA a =
                frag_a(pack_bf16(s[2 * k][0], s[2 * k][1]), pack_bf16(s[2 * k][2], s[2 * k][3]),
                       pack_bf16(s[2 * k + 1][0], s[2 * k + 1][1]),
                       pack_bf16(s[2 * k + 1][2], s[2 * k + 1][3]));
#pragma unroll
            for (int n = 0; n < Dim / 8; n += 2) {
                FragB b0, b1;
                ldmatrix_x4_trans(
                    b0, b1,
                    keys + (L::kPlane + (k * 16 + lane % 8 + lane / 8 % 2 * 8) * L::kRow + n * 8 +
                            lane / 16 * 8));
                mma_bf16(out[n], a, b0);
                mma_bf16(out[n + 1], a, b1);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int j = 0; j < 2; ++j) {
        sum[j] += __shfl_xor_sync(~0U, sum[j], 1);
        sum[j] += __shfl_xor_sync(~0U, sum[j], 2);
        if (!valid[j]) continue;
        const std::int64_t query = (std::int64_t{blockIdx.x} * p.row_capacity + span.first_row +
                                    static_cast<unsigned>(row[j])) *
                                       p.n_heads +
                                   head[j];
        if (t == 0) p.part_lse[query] = sum[j] == 0 ? -INFINITY : top[j] + log2_approx(sum[j]);
        if (sum[j] == 0) continue;
        const float inverse = 1.0F / sum[j];
#pragma unroll
        for (int n = 0; n < Dim / 8; ++n) {
            store(p.part_out + (query * Dim + n * 8 + 2 * t),
                  float2{out[n][2 * j] * inverse, out[n][2 * j + 1] * inverse});
        }
    }
}

}  // namespace

std::size_t draft_attend_shared_bytes(std::uint32_t dim) {
    return static_cast<std::size_t>(dim == 32   ? Layout<32>::kBytes
                                    : dim == 64 ? Layout<64>::kBytes
                                                : Layout<128>::kBytes);
}

void draft_attend(const DraftAttendParams &p, Stream stream) {
    KIMI_CHECK((p.dim == 32 || p.dim == 64 || p.dim == 128) && p.n_heads % p.n_kv_heads == 0);
    if (p.max_sequences == 0 || p.max_rows == 0) return;
    const std::uint32_t groups =
        (p.max_rows * (p.n_heads / p.n_kv_heads) + kQueries - 1) / kQueries;
    const std::uint32_t tiles =
        (p.max_context + kDraftTile - 1) / kDraftTile + 1;  // a ring's window may cut one
    launch({.name = "draft_attend",
            .grid = {1 + std::min(p.splits, tiles), p.n_kv_heads * groups, p.max_sequences},
            .block = {kThreads},
            .shared_bytes = draft_attend_shared_bytes(p.dim),
            .stream = stream,
            .dependent = true},
           p.dim == 32   ? draft_attend_kernel<32>
           : p.dim == 64 ? draft_attend_kernel<64>
                         : draft_attend_kernel<128>,
           p);
}

}  // namespace kimi
