// Brings an expert's int4 matrices from the checkpoint's order into that of moe_layout.h, while
// loading. Every byte is read and written once.
#pragma once

#include "kernels/moe_layout.h"

namespace kimi {

// Rows of a matrix as the checkpoint has them; a slice of inputs begins inside a row.
struct Int4Rows {
    simt::Global<const std::uint32_t> words;  // [rows, words_stride]
    simt::Global<const bf16> scales;          // [rows, scales_stride]
    std::uint32_t words_stride, scales_stride;
};

struct MoeRepackParams {
    Int4Rows first, second;         // gate and up, 8 rows of each in a tile; or down and null
    std::uint32_t rows, inputs;     // of the result: multiples of 16 and 64
    simt::Global<std::uint8_t> to;  // moe_matrix_bytes(rows, inputs)
};

void moe_repack(const MoeRepackParams &params, simt::Stream stream);

}  // namespace kimi
