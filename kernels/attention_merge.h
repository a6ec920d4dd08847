// Combines attention over parts of a context.
#pragma once

#include <cstdint>

#include "kernels/simt/types.h"

namespace kimi {

struct AttentionMergeParams {
    // Of each part: its normalised output and the base-2 logarithm of its sum of exponentials;
    // -inf: nothing was seen, and the output is not read.
    simt::Global<const float> part_out;  // [parts, row_capacity, heads, dim], aligned to 16 bytes
    simt::Global<const float> part_lse;  // [parts, row_capacity, heads]
    simt::Global<const std::uint32_t> n_parts;  // [rows]
    simt::Global<const std::uint32_t> n_rows;   // [1], at most max_rows
    int n_heads, dim;                           // dim: a multiple of 4 up to 128, or of 128
    int row_capacity;
    int max_rows;
    // Any of these may be null. A row that sees nothing gets zeros and -inf.
    simt::Global<bf16> out;        // [rows, heads, dim], aligned to 8 bytes
    simt::Global<float> out_fp32;  // the same, aligned to 16 bytes
    simt::Global<float> lse;       // [rows, heads], base 2
    // Heads of one rank: instead, all are [heads / group_heads, row_capacity, group_heads, dim], a
    // piece for each rank. 0: as above.
    int group_heads = 0;
};

void attention_merge(const AttentionMergeParams &params, simt::Stream stream);

}  // namespace kimi
