// One warp per sequence. Each node taken replaces its candidate by that of its next sibling and
// adds one for its first child, so 64 candidates, two per lane, are enough; the best is found by
// shuffles. Equal costs are decided by the ranks along the path, a byte each, plus 1 so that a path
// comes before its extensions.
#include "kernels/tree_build.h"

#include <cmath>

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

using Wide = unsigned long long;

struct Candidate {
    double cost;           // minus the summed log-probability; infinite: none
    Wide ranks[2];         // of the path, first rank in the highest byte
    std::uint32_t parent;  // row
    std::uint32_t depth, rank;
    std::uint32_t slot;
};

__device__ __forceinline__ bool before(const Candidate &a, const Candidate &b) {
    if (a.cost != b.cost) return a.cost < b.cost;
    if (a.ranks[0] != b.ranks[0]) return a.ranks[0] < b.ranks[0];
    return a.ranks[1] < b.ranks[1];
}
__device__ __forceinline__ Candidate shuffled(const Candidate &c, int distance) {
    Candidate out;
    out.cost = __shfl_xor_sync(~0U, c.cost, distance);
    out.ranks[0] = __shfl_xor_sync(~0U, c.ranks[0], distance);
    out.ranks[1] = __shfl_xor_sync(~0U, c.ranks[1], distance);
    out.parent = __shfl_xor_sync(~0U, c.parent, distance);
    out.depth = __shfl_xor_sync(~0U, c.depth, distance);
    out.rank = __shfl_xor_sync(~0U, c.rank, distance);
    out.slot = __shfl_xor_sync(~0U, c.slot, distance);
    return out;
}
// The path with the rank at `depth` set.
__device__ __forceinline__ void set_rank(Candidate &c, std::uint32_t depth, std::uint32_t rank) {
    const int shift = static_cast<int>(56 - (depth - 1) % 8 * 8);
    Wide &half = depth <= 8 ? c.ranks[0] : c.ranks[1];
    half = (half & ~(Wide{0xFF} << shift)) | static_cast<Wide>(rank + 1) << shift;
    c.depth = depth;
    c.rank = rank;
}

__global__ void __launch_bounds__(32) tree_build_kernel(TreeBuildParams p) {
    KIMI_SHARED(Wide, words, kTreeRows);
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t sequence = blockIdx.x, lane = threadIdx.x;
    if (sequence >= p.n_sequences[0]) return;
    const Global<const std::int32_t> token = p.token + std::int64_t{sequence} * p.depth * p.k;
    const Global<const double> log_probability =
        p.log_probability + std::int64_t{sequence} * p.depth * p.k;
    const std::uint32_t wanted = p.budget[sequence], budget = min(wanted, kTreeRows - 1),
                        k = min(p.k, budget);
    const std::uint32_t root_position = p.root_position[sequence];
    const std::int32_t root = p.root_token[sequence];
    const std::uint32_t first = p.first_row[sequence], rows = p.rows[sequence];
    const auto value = [&](std::uint32_t depth, std::uint32_t rank) -> double {
        return log_probability[(depth - 1) * p.k + rank];
    };
    const auto write = [&](std::uint32_t row, std::int32_t row_token, std::uint32_t depth,
                           Wide word, std::uint32_t parent) {
        words[row] = word;
        if (row >= rows) return;
        p.row_token[first + row] = row_token;
        p.row_position[first + row] = root_position + depth;
        p.row_word[first + row] = word;
        p.row_parent[first + row] = static_cast<std::uint8_t>(parent);
    };
    if (lane == 0) write(0, root, 0, 1, kNoParent);
    __syncwarp();

    Candidate own[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
        own[i] = {INFINITY, {0, 0}, 0, 0, 0, lane + 32 * static_cast<unsigned>(i)};
    if (lane == 0 && k > 0 && p.depth > 0) {
        set_rank(own[0], 1, 0);
        own[0].cost = -value(1, 0);
    }
    const auto put = [&](const Candidate &c) {
        const bool finite = c.cost - c.cost == 0;
#pragma unroll
        for (unsigned i = 0; i < 2; ++i) {
            if (lane + 32 * i != c.slot) continue;
            own[i] = c;
            if (!finite) own[i].cost = INFINITY;
        }
    };
    if (lane == 0) put(own[0]);
    std::uint32_t n = 0;
    while (n < budget) {
        Candidate best = before(own[1], own[0]) ? own[1] : own[0];
        for (int distance = 16; distance > 0; distance /= 2) {
            const Candidate other = shuffled(best, distance);
            if (before(other, best)) best = other;
        }
        if (best.cost == INFINITY) break;
        const std::uint32_t row = ++n;
        if (lane == 0) {
            const std::int32_t taken = token[(best.depth - 1) * p.k + best.rank];
            const Wide above = words[best.parent];
            write(row, taken, best.depth, above | Wide{1} << row, best.parent);
            p.node_log_probability[std::int64_t{sequence} * kTreeRows + n - 1] = -best.cost;
        }
        __syncwarp();
        Candidate sibling = best, child = best;
        sibling.cost = INFINITY;
        if (best.rank + 1 < k) {
            sibling.cost =
                best.cost + value(best.depth, best.rank) - value(best.depth, best.rank + 1);
            set_rank(sibling, best.depth, best.rank + 1);
        }
        put(sibling);
        child.slot = row;  // free: slot 0 was the first candidate's
        child.cost = INFINITY;
        child.parent = row;
        if (best.depth < p.depth) {
            child.cost = best.cost - value(best.depth + 1, 0);
            set_rank(child, best.depth + 1, 0);
        }
        put(child);
    }
    if (lane == 0) p.n_nodes[sequence] = n;
    for (std::uint32_t row = n + 1 + lane; row < rows; row += 32)
        write(row, root, 0, Wide{1} | Wide{1} << row, kNoParent);
}

}  // namespace

void tree_build(const TreeBuildParams &p, Stream stream) {
    KIMI_CHECK(p.depth <= kTreeMaxDepth && p.k <= kTreeRows);
    if (p.max_sequences == 0) return;
    launch({.name = "tree_build",
            .grid = {p.max_sequences},
            .block = {32},
            .stream = stream,
            .dependent = true},
           tree_build_kernel, p);
}

}  // namespace kimi
