// One block; warp w walks the trees of sequences w, w + 32, ...: a lane looks at two rows, and a
// vote finds the child. The moves of all sequences are then placed in order of the sequences.
#include "kernels/tree_accept.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr std::uint32_t kThreads = 256, kWarps = kThreads / 32;

// Follows the tree; returns the number of committed rows, to all lanes.
__device__ __forceinline__ std::uint32_t walk(const TreeAcceptParams &p, std::uint32_t sequence) {
    const std::uint32_t lane = threadIdx.x % 32, n_rows = p.rows[sequence],
                        first = p.first_row[sequence];
    std::uint32_t parent[2];
    std::int32_t token[2];
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
        const std::uint32_t row = lane + 32 * i;
        parent[i] = kTreeRows;
        token[i] = 0;
        if (row == 0 || row >= n_rows) continue;
        const std::uint8_t above = p.row_parent[first + row];
        parent[i] = above;
        token[i] = p.row_token[first + row];
    }
    std::uint32_t n = 0, row = 0;
    while (true) {
        const std::int32_t wanted = p.target[first + row];
        if (lane == 0) {
            p.path[first + n] = row;
            p.token[first + n] = wanted;
        }
        ++n;
        const unsigned low = __ballot_sync(~0U, parent[0] == row && token[0] == wanted);
        const unsigned high = __ballot_sync(~0U, parent[1] == row && token[1] == wanted);
        if ((low | high) == 0) return n;
        row = static_cast<std::uint32_t>(low != 0 ? __ffs(static_cast<int>(low)) - 1
                                                  : 31 + __ffs(static_cast<int>(high)));
    }
}

__global__ void __launch_bounds__(kThreads) tree_accept_kernel(TreeAcceptParams p) {
    KIMI_SHARED(std::uint32_t, moves, kWarps);  // before the warp's sequence, of this round
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32,
                        n_sequences = p.n_sequences[0];
    std::uint32_t done = 0;
    for (std::uint32_t begin = 0; begin < n_sequences; begin += kWarps) {
        const std::uint32_t sequence = begin + warp;
        const bool active = sequence < n_sequences;
        const std::uint32_t first = active ? p.first_row[sequence] : 0;
        const std::uint32_t n = active ? walk(p, sequence) : 0;
        __syncwarp();
        // Rows that are not in place yet: a path's rows ascend, so those behind the first such one.
        std::uint32_t row[2] = {lane, lane + 32};
        unsigned moved[2];
#pragma unroll
        for (unsigned i = 0; i < 2; ++i) {
            const std::uint32_t at = lane + 32 * i;
            if (at < n) row[i] = p.path[first + at];
            moved[i] = __ballot_sync(~0U, row[i] != at);
        }
        const auto count = static_cast<std::uint32_t>(__popc(moved[0]) + __popc(moved[1]));
        if (lane == 0) moves[warp] = count;
        if (active && lane == 0) p.n_committed[sequence] = n;
        __syncthreads();
        std::uint32_t at = done;
        for (std::uint32_t w = 0; w < kWarps; ++w) {
            const std::uint32_t other = moves[w];
            if (w < warp) at += other;
            done += other;
        }
#pragma unroll
        for (unsigned i = 0; i < 2; ++i) {
            const unsigned mine = 1U << lane;
            if ((moved[i] & mine) == 0) continue;
            const auto rank = static_cast<std::uint32_t>(__popc(moved[i] & (mine - 1)) +
                                                         (i == 1 ? __popc(moved[0]) : 0));
            const std::uint32_t to = p.cell[first + lane + 32 * i];
            std::uint32_t from = first + row[i];
            if (!p.from_rows) from = p.cell[from];
            p.from[at + rank] = from;
            p.to[at + rank] = to;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) p.n_moves[0] = done;
}

}  // namespace

void tree_accept(const TreeAcceptParams &p, Stream stream) {
    if (p.max_sequences == 0) return;
    launch({.name = "tree_accept",
            .grid = {1},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           tree_accept_kernel, p);
}

}  // namespace kimi
