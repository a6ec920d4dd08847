// One block, a warp per sequence in turn: a lane takes every 32nd row of the path.
#include "kernels/context_rows.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr std::uint32_t kThreads = 256, kMaxSequences = 64;

__global__ void __launch_bounds__(kThreads) context_rows_kernel(ContextRowsParams p) {
    KIMI_SHARED(std::uint32_t, begin, kMaxSequences + 1);  // of each sequence's rows
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t n_sequences = p.n_sequences[0];
    if (threadIdx.x == 0) {
        std::uint32_t n = 0;
        for (std::uint32_t s = 0; s < n_sequences; ++s) {
            begin[s] = n;
            n += p.n_committed[s];
        }
        p.n_rows[0] = n;
        p.n_picked[0] = n;
    }
    __syncthreads();
    for (std::uint32_t s = threadIdx.x / 32; s < n_sequences; s += kThreads / 32) {
        const std::uint32_t first = p.first_row[s], n = p.n_committed[s];
        for (std::uint32_t i = threadIdx.x % 32; i < n; i += 32) {
            const std::uint32_t to = begin[s] + i, position = p.root_position[s] + i;
            p.picked[to] = first + p.path[first + i];
            p.position[to] = position;
            p.page_cell[to] = p.cell[first + i];
            if (p.ring_slots > 0)
                p.ring_cell[to] = p.ring[s] * p.ring_slots + position % p.ring_slots;
        }
    }
}

}  // namespace

void context_rows(const ContextRowsParams &p, Stream stream) {
    KIMI_CHECK(p.max_sequences <= kMaxSequences);
    if (p.max_sequences == 0) return;
    launch({.name = "context_rows",
            .grid = {1},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           context_rows_kernel, p);
}

}  // namespace kimi
