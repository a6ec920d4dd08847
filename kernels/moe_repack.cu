// A warp makes a unit.
#include "kernels/moe_repack.h"

#include "base/error.h"
#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr unsigned kWarps = 4;

// Nibbles 0, 2, 4, 6, 1, 3, 5, 7.
__device__ __forceinline__ std::uint32_t evens_first(std::uint32_t word) {
    std::uint32_t out = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        out |= (word >> (8 * i) & 15U) << (4 * i);
        out |= (word >> (8 * i + 4) & 15U) << (16 + 4 * i);
    }
    return out;
}

__global__ void __launch_bounds__(32 * kWarps) moe_repack_kernel(MoeRepackParams p) {
    const std::uint32_t units = p.inputs / kMoeUnitInputs, lane = threadIdx.x % 32;
    const std::uint32_t unit = blockIdx.x * kWarps + threadIdx.x / 32;
    if (unit >= p.rows / kMoeTileRows * units) return;
    const std::uint32_t tile = unit / units, at = unit % units;
    const bool pairs = static_cast<bool>(p.second.words);
    // Row g or g + 8 of the tile.
    const auto matrix_of = [&](std::uint32_t upper) -> const Int4Rows & {
        return pairs && upper ? p.second : p.first;
    };
    const auto row_of = [&](std::uint32_t g, std::uint32_t upper) {
        return pairs ? tile * 8 + g : tile * kMoeTileRows + 8 * upper + g;
    };
    std::uint32_t words[4];
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
        const Int4Rows &m = matrix_of(i % 2);
        const std::int64_t row = row_of(lane / 4, i % 2);
        const std::uint32_t word = m.words[row * m.words_stride + at * 8 + i / 2 * 4 + lane % 4];
        words[i] = evens_first(word);
    }
    const std::int64_t n_units = std::int64_t{p.rows / kMoeTileRows} * units;
    store(p.to + (std::int64_t{unit} * kMoeUnitWords * 4 + lane * 16),
          uint4{words[0], words[1], words[2], words[3]});
    const Int4Rows &m = matrix_of(lane % 2);
    const std::int64_t row = row_of(lane / 4, lane % 2);
    const bf16 scale = m.scales[row * m.scales_stride + at * 2 + lane % 4 / 2];
    store(p.to + (n_units * kMoeUnitWords * 4 + std::int64_t{unit} * kMoeUnitScales * 2 + lane * 2),
          scale);
}

}  // namespace

void moe_repack(const MoeRepackParams &p, Stream stream) {
    KIMI_CHECK(p.rows > 0 && p.rows % kMoeTileRows == 0 && p.inputs > 0 &&
               p.inputs % kMoeUnitInputs == 0);
    const auto units = static_cast<std::uint32_t>(moe_units(p.rows, p.inputs));
    launch({.name = "moe_repack",
            .grid = {(units + kWarps - 1) / kWarps},
            .block = {32 * kWarps},
            .stream = stream},
           moe_repack_kernel, p);
}

}  // namespace kimi
