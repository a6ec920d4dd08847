// y[r, o] (+)= sum over i of x[r, i] * weight[o, i], for 1 to 64 rows: every projection of the
// model. More rows are several launches, one behind the other, so that the weights of all but the
// first come from L2 and a row has the same bits in passes of any width.
//
// Up to four matrices with the same input run in one launch (q_a + kv_a, router + gate + up, q + k
// + v), so that small ones fill the GPU together.
//
// With batches, e.g. the heads of absorbed attention, batch b multiplies its own part of x by its
// own matrix: weight[b], [outputs, inputs].
//
// bf16 in, fp32 accumulation, fp32 or bf16 out; a residual is added in fp32 before that is rounded.
// The order of a sum depends on the matrices of the launch and on nothing else, so a row has the
// same bits whatever its neighbours are and however many.
//
// Bytes that must move: 2 * inputs * outputs of weights, plus rows * (2 * inputs + 2 or 4 *
// outputs). Flops: 2 * rows * inputs * outputs. sm_80 and later.
#pragma once

#include <cstddef>

#include "kernels/simt/types.h"

namespace kimi {

inline constexpr std::uint32_t kSkinnyGemmMaxRows = 64, kSkinnyGemmMaxJobs = 4;

// How a launch is cut.
struct SkinnyGemmTiles {
    std::uint32_t row_tiles = 0;     // of 8 rows of x: 1, 2, 4 or 8
    std::uint32_t output_tiles = 0;  // of 16 outputs, that a block makes: 1 or 2
    std::uint32_t splits = 0;        // blocks that share the inputs of an output

    constexpr bool operator==(const SkinnyGemmTiles &) const = default;
};

struct SkinnyGemmJob {
    simt::Global<const bf16> weight;  // [outputs, inputs], 16-byte aligned
    simt::Global<float> y_f32;        // [rows, outputs]; of the two outputs one is set
    simt::Global<bf16> y_bf16;
    std::uint32_t outputs;         // a multiple of 4
    bool add;                      // to what y holds
    std::uint32_t y_row, y_batch;  // elements from row to row (0: outputs) and batch to batch
};

struct SkinnyGemmParams {
    simt::Global<const bf16> x;                // [rows, inputs], 16-byte aligned
    simt::Global<const std::uint32_t> n_rows;  // on the device, at most max_rows
    std::uint32_t max_rows, inputs;            // inputs a multiple of 8
    SkinnyGemmJob jobs[kSkinnyGemmMaxJobs];
    std::uint32_t n_jobs;
    std::uint32_t batches;         // 0 is 1
    std::uint32_t x_row, x_batch;  // elements from row to row (0: inputs) and from batch to batch
    SkinnyGemmTiles tiles;
    // With splits > 1, as many as skinny_gemm_workspace() says, for one launch at a time.
    simt::Global<float> partial;
    simt::Global<std::uint32_t> arrived;  // zero before the first launch, and after each
};

struct SkinnyGemmWorkspace {
    std::size_t partial = 0, arrived = 0;  // elements
};

// The cut for a launch whose matrices have so many outputs together. `splits` does not depend on
// the rows.
SkinnyGemmTiles skinny_gemm_tiles(std::uint32_t max_rows, std::uint32_t outputs,
                                  std::uint32_t inputs, std::uint32_t n_sms);
SkinnyGemmWorkspace skinny_gemm_workspace(const SkinnyGemmParams &params);
std::size_t skinny_gemm_shared_bytes(const SkinnyGemmTiles &tiles);

void skinny_gemm(const SkinnyGemmParams &params, simt::Stream stream);

}  // namespace kimi
