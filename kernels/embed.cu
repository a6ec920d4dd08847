// One block per row; a thread moves 4 values at a time, 8 bytes in and 8 or 16 out.
#include "kernels/embed.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

__global__ void embed_kernel(EmbedParams p) {
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t row = blockIdx.x;
    if (row >= p.n_rows[0]) return;
    const std::int64_t in_table = std::int64_t{p.token[row]} - p.first_token;
    const bool held = in_table >= 0 && in_table < p.table_rows;
    const Global<const bf16> from = p.table + (held ? in_table : 0) * p.width;
    const std::int64_t to = std::int64_t{row} * p.width;
    for (std::uint32_t i = 4 * threadIdx.x; i < p.width; i += 4 * blockDim.x) {
        const uint2 v = held ? load_readonly<uint2>(from + i) : uint2{0, 0};
        if (p.y_bf16) {
            store(p.y_bf16 + (to + i), v);
        } else {
            const float2 a = unpack_bf16(v.x), b = unpack_bf16(v.y);
            store(p.y_f32 + (to + i), float4{a.x, a.y, b.x, b.y});
        }
    }
}

}  // namespace

void embed(const EmbedParams &p, Stream stream) {
    KIMI_CHECK(p.width > 0 && p.width % 4 == 0);
    if (p.max_rows == 0) return;
    launch({.name = "embed",
            .grid = {p.max_rows},
            .block = {embed_threads(p.width)},
            .stream = stream,
            .dependent = true},
           embed_kernel, p);
}

}  // namespace kimi
