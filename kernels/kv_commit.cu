// A thread copies 16 bytes of a token in one layer; blockIdx.y is the move.
#include "kernels/kv_commit.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr std::uint32_t kThreads = 128;

__device__ __forceinline__ std::int64_t place_of(const KvPlanes &planes, std::uint32_t plane,
                                                 std::uint32_t page, std::uint32_t token) {
    return std::int64_t{page} * planes.page_bytes + planes.plane[plane].offset +
           token * planes.plane[plane].token_bytes;
}

__global__ void __launch_bounds__(kThreads) kv_commit_kernel(KvCommitParams p) {
    grid_dependency_wait();
    const std::uint32_t move = blockIdx.y;
    if (move >= p.n_moves[0]) return;
    const std::uint32_t row = p.from[move], cell = p.to[move];
    const KvPlanes whole = mla_planes(p.fp8), part = mla_planes(p.fp8, p.shard.tokens());
    const std::uint32_t columns = whole.token_bytes() / 16;
    const std::uint32_t at = blockIdx.x * kThreads + threadIdx.x, layer = at / columns;
    if (layer >= p.n_layers || !p.shard.holds(cell)) return;
    std::uint32_t column = at % columns * 16, plane = 0;
    while (column >= whole.plane[plane].token_bytes) column -= whole.plane[plane++].token_bytes;
    const Global<const std::uint8_t> from = p.fresh + (std::int64_t{layer} * whole.page_bytes +
                                                       place_of(whole, plane, 0, row) + column);
    const Global<std::uint8_t> to =
        p.pages + (std::int64_t{layer} * p.layer_bytes +
                   place_of(part, plane, cell / kMlaPageTokens, cell % p.shard.tokens()) + column);
    store(to, load<uint4>(from));
}

}  // namespace

void kv_commit(const KvCommitParams &p, Stream stream) {
    if (p.max_moves == 0) return;
    const std::uint32_t threads = p.n_layers * (mla_planes(p.fp8).token_bytes() / 16);
    launch({.name = "kv_commit",
            .grid = {(threads + kThreads - 1) / kThreads, p.max_moves},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           kv_commit_kernel, p);
}

}  // namespace kimi
