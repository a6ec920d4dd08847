// table[r] = cos, then sin, of position[r] * inv_freq[i], times amplitude.
//
// The angle is rounded to fp32; sine and cosine of that number are accurate to 1e-7 at any angle (a
// position of 262,143 is 262,143 rad): the reduction to a quarter turn is done in fp64. Once per
// step, for all layers. Bytes that must move: 4 per row in, 8 * n_freq per row out.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct RopeTableParams {
    simt::Global<const std::uint32_t> position;  // [rows]
    simt::Global<const float> inv_freq;          // [n_freq]
    simt::Global<float> table;                   // [rows, 2 * n_freq]
    simt::Global<const std::uint32_t> n_rows;    // on the device, at most max_rows
    std::uint32_t max_rows, n_freq;
    float amplitude;
};

void rope_table(const RopeTableParams &params, simt::Stream stream);

}  // namespace kimi
