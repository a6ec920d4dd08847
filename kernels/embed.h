// y[i] = table[token[i]]
//
// A rank that holds a part of the vocabulary writes zeros for tokens of other ranks, so that the
// sum over ranks is the embedding. Bytes: rows * width * (2 read + 2 or 4 written). Nothing is
// computed.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct EmbedParams {
    simt::Global<const std::int32_t> token;  // [rows]; any value: rows beyond the table are zero
    simt::Global<const bf16> table;          // [table_rows, width], 16-byte aligned
    simt::Global<float> y_f32;               // [rows, width]; of the two outputs one is set
    simt::Global<bf16> y_bf16;
    simt::Global<const std::uint32_t> n_rows;  // on the device, at most max_rows
    std::uint32_t max_rows, width;             // width a multiple of 4
    std::int32_t first_token;                  // of the table's first row
    std::uint32_t table_rows;
};

// Threads of the block that copies one row.
constexpr unsigned embed_threads(std::uint32_t width) {
    const unsigned warps = (width / 4 + 31) / 32;
    return 32 * (warps < 1 ? 1 : warps > 16 ? 16 : warps);
}

void embed(const EmbedParams &params, simt::Stream stream);

}  // namespace kimi
