// What folding, pages and vector loads are measured against: one row and head per block, a table
// entry per token, scalar loads. The same partial results as mla_verify_paged, of bf16.
#pragma once

#include "kernels/simt/types.h"

namespace kimi::bench {

struct PlainAttentionParams {
    const bf16 *q;               // [rows, heads, 576]
    const bf16 *kv;              // [tokens, 576]
    const std::uint32_t *table;  // [context] of each position: the token that it is
    std::uint32_t context, splits, rows, heads;
    float scale;
    float *part_out, *part_lse;  // [splits, rows, heads, 512] and without 512
    std::uint32_t *n_parts;      // [rows]
};

void plain_attention(const PlainAttentionParams &params, simt::Stream stream);

}  // namespace kimi::bench
