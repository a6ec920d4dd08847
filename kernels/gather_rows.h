// y[i] = x[row[i]]
//
// fp32 in; out as fp32, or rounded to bf16, or both. Bytes: rows * width * (4 read + 4 and 2
// written). Nothing is computed.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct GatherRowsParams {
    simt::Global<const float> x;            // [any rows, width], 16-byte aligned
    simt::Global<const std::uint32_t> row;  // [rows]
    simt::Global<float> y_f32;              // [rows, width]; one of the two may be null
    simt::Global<bf16> y_bf16;
    simt::Global<const std::uint32_t> n_rows;  // on the device, at most max_rows
    std::uint32_t max_rows, width;             // width a multiple of 4
};

void gather_rows(const GatherRowsParams &params, simt::Stream stream);

}  // namespace kimi
