// A thread copies 16 bytes of a token in one layer; blockIdx.y is the move.
#include "kernels/kv_commit.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr std::uint32_t kThreads = 128;

__global__ void __launch_bounds__(kThreads) kv_commit_kernel(KvCommitParams p) {
    grid_dependency_wait();
    const std::uint32_t move = blockIdx.y;
    if (move >= p.n_moves[0]) return;
    const std::uint32_t row = p.from[move], cell = p.to[move];
    const KvPlanes whole = mla_planes(p.fp8), part = mla_planes(p.fp8, p.shard.tokens());
    const std::uint32_t columns = whole.token_bytes() / 16;
    const std::uint32_t at = blockIdx.x * kThreads + threadIdx.x, layer = at / columns;
    if (layer >= p.n_layers || !p.shard.holds(cell)) return;
    std::uint32_t column = at % columns * 16;
    KvPlane from = whole.plane[0], to = part.plane[0];
#pragma unroll
    for (std::uint32_t i = 1; i < kMaxKvPlanes; ++i) {
        if (column >= from.token_bytes) {
            column -= from.token_bytes;
            from = whole.plane[i];
            to = part.plane[i];
        }
    }
    const uint4 bytes = load<uint4>(p.fresh + (std::int64_t{layer} * whole.page_bytes +
                                               from.offset + row * from.token_bytes + column));
    store(p.pages + (std::int64_t{layer} * p.layer_bytes +
                     std::int64_t{cell / kMlaPageTokens} * part.page_bytes + to.offset +
                     cell % p.shard.tokens() * to.token_bytes + column),
          bytes);
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
