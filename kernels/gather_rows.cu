// A block moves up to 1024 columns of one row, 4 per thread.
#include "kernels/gather_rows.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr unsigned kThreads = 256;

__global__ void __launch_bounds__(kThreads) gather_rows_kernel(GatherRowsParams p) {
    grid_dependency_wait();
    grid_dependency_launch();
    const std::uint32_t row = blockIdx.y, column = 4 * (blockIdx.x * kThreads + threadIdx.x);
    if (row >= p.n_rows[0] || column >= p.width) return;
    const std::uint32_t from = p.row[row];
    const float4 v = load<float4>(p.x + (std::int64_t{from} * p.width + column));
    const std::int64_t to = std::int64_t{row} * p.width + column;
    if (p.y_f32) store(p.y_f32 + to, v);
    if (p.y_bf16) store(p.y_bf16 + to, uint2{pack_bf16(v.x, v.y), pack_bf16(v.z, v.w)});
}

}  // namespace

void gather_rows(const GatherRowsParams &p, Stream stream) {
    KIMI_CHECK(p.width > 0 && p.width % 4 == 0);
    if (p.max_rows == 0) return;
    launch({.name = "gather_rows",
            .grid = {(p.width + 4 * kThreads - 1) / (4 * kThreads), p.max_rows},
            .block = {kThreads},
            .stream = stream,
            .dependent = true},
           gather_rows_kernel, p);
}

}  // namespace kimi
