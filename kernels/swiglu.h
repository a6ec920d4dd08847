// y = silu(gate) * up, silu(g) = g / (1 + exp(-g))
//
// fp32 inside, rounded to bf16 once. Bytes: rows * width * (4 + 4 + 2).
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct SwigluParams {
    simt::Global<const float> gate, up;        // [rows, width], 16-byte aligned
    simt::Global<bf16> y;                      // [rows, width]
    simt::Global<const std::uint32_t> n_rows;  // on the device, at most max_rows
    std::uint32_t max_rows, width;             // width a multiple of 4
};

void swiglu(const SwigluParams &params, simt::Stream stream);

}  // namespace kimi
