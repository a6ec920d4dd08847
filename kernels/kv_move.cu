// A block copies one page of one layer, four 16-byte accesses per thread under way.
#include "kernels/kv_move.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr std::uint32_t kThreads = 256, kAhead = 4;

__global__ void __launch_bounds__(kThreads) kv_move_kernel(KvMoveParams p) {
    grid_dependency_wait();
    const std::uint32_t from_page = p.from[blockIdx.x], to_page = p.to[blockIdx.x];
    const Global<std::uint8_t> layer = p.pages + std::int64_t{blockIdx.y} * p.layer_bytes;
    const Global<std::uint8_t> from = layer + std::int64_t{from_page} * p.page_bytes;
    const Global<std::uint8_t> to = layer + std::int64_t{to_page} * p.page_bytes;
    for (std::uint32_t first = threadIdx.x * 16; first < p.page_bytes;
         first += kAhead * kThreads * 16) {
        uint4 held[kAhead];
#pragma unroll
        for (std::uint32_t i = 0; i < kAhead; ++i) {
            const std::uint32_t at = first + i * kThreads * 16;
            if (at < p.page_bytes) held[i] = load<uint4>(from + at);
        }
#pragma unroll
        for (std::uint32_t i = 0; i < kAhead; ++i) {
            const std::uint32_t at = first + i * kThreads * 16;
            if (at < p.page_bytes) store_streaming(to + at, held[i]);
        }
    }
}

}  // namespace

void kv_move(const KvMoveParams &p, Stream stream) {
    KIMI_CHECK(p.page_bytes % 16 == 0);
    if (p.n_moves == 0) return;
    launch({.name = "kv_move",
            .grid = {p.n_moves, p.n_layers},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           kv_move_kernel, p);
}

}  // namespace kimi
