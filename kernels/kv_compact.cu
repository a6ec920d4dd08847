// A thread owns 16 bytes of a token in one layer and moves them for all tokens in order, 8 at a
// time: what it reads, no other thread writes.
#include "kernels/kv_compact.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr std::uint32_t kThreads = 128, kBatch = 8;

__global__ void __launch_bounds__(kThreads) kv_compact_kernel(KvCompactParams p) {
    grid_dependency_wait();
    const std::uint32_t n_moves = p.n_moves[0], columns = p.planes.token_bytes() / 16;
    const std::uint32_t at = blockIdx.x * kThreads + threadIdx.x, layer = at / columns;
    std::uint32_t column = at % columns * 16;
    if (layer >= p.n_layers) return;
    KvPlane plane = p.planes.plane[0];
#pragma unroll
    for (std::uint32_t i = 1; i < kMaxKvPlanes; ++i) {
        if (column >= plane.token_bytes) {
            column -= plane.token_bytes;
            plane = p.planes.plane[i];
        }
    }
    const Global<std::uint8_t> base =
        p.pages + (std::int64_t{layer} * p.layer_bytes + plane.offset + column);
    const auto place_of = [&](std::uint32_t cell) {
        return base + (std::int64_t{cell / kMlaPageTokens} * p.planes.page_bytes +
                       std::int64_t{cell % kMlaPageTokens} * plane.token_bytes);
    };
    for (std::uint32_t first = 0; first < n_moves; first += kBatch) {
        uint4 held[kBatch];
#pragma unroll
        for (std::uint32_t i = 0; i < kBatch; ++i) {
            if (first + i >= n_moves) continue;
            const std::uint32_t cell = p.from[first + i];
            held[i] = load<uint4>(place_of(cell));
        }
#pragma unroll
        for (std::uint32_t i = 0; i < kBatch; ++i) {
            if (first + i >= n_moves) continue;
            const std::uint32_t cell = p.to[first + i];
            store(place_of(cell), held[i]);
        }
    }
}

}  // namespace

void kv_compact(const KvCompactParams &p, Stream stream) {
    for (const KvPlane &plane : p.planes.plane) {
        KIMI_CHECK(plane.offset % 16 == 0 && plane.token_bytes % 16 == 0);
    }
    if (p.max_moves == 0) return;
    const std::uint32_t threads = p.n_layers * (p.planes.token_bytes() / 16);
    launch({.name = "kv_compact",
            .grid = {(threads + kThreads - 1) / kThreads},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           kv_compact_kernel, p);
}

}  // namespace kimi
