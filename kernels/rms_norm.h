// x += addend; y = x / sqrt(mean(x^2) + eps) * weight
//
// The residual stream x is fp32; the mean is of all `width` values, in fp32, and y is rounded to
// bf16 once. With `row`, output i is the norm of x[row[i]] alone: the rows whose logits are
// wanted. Bytes per row: width * (4 read + 2 written), and 2 + 4 more with an addend; the weight
// is read once from DRAM. Registers hold the row, so x is read once.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct RmsNormParams {
    simt::Global<float> x;                  // [rows, width], 16-byte aligned
    simt::Global<const bf16> addend;        // [rows, width] or null; x is written only if it is set
    simt::Global<const std::uint32_t> row;  // [rows] or null: which row of x and addend; distinct
    simt::Global<const bf16> weight;        // [width]
    simt::Global<bf16> y;                   // [rows, width]
    simt::Global<const std::uint32_t> n_rows;  // of y, on the device, at most max_rows
    std::uint32_t max_rows, width;             // width a multiple of 4, at most 8192
    float eps;
};

inline constexpr std::uint32_t kRmsNormMaxWidth = 8192;

// Threads of the block that makes one row: 8 values each.
constexpr unsigned rms_norm_threads(std::uint32_t width) {
    return 32 * ((width + 255) / 256);
}

void rms_norm(const RmsNormParams &params, simt::Stream stream);

}  // namespace kimi
