// The drafter's heads: RMSNorm per head and rotation of the pairs (i, i + dim / 2), for queries and
// keys; values as they are.
//
// Keys and values go to entries [2, kv_heads, dim] bf16: those of the cache, or, for the block that
// is being drafted, one per row. fp32 in; bytes that must move per row: 4 * dim per head in and 2
// out.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct DraftPrepareParams {
    simt::Global<const float> q, k, v;  // [rows, heads or kv_heads, dim]; q null: only entries
    simt::Global<const bf16> q_norm, k_norm;  // [dim]
    simt::Global<const float> rope;           // [rows, dim / 2 cos | dim / 2 sin] (rope_table.h)
    simt::Global<bf16> q_out;                 // [rows, heads, dim]
    simt::Global<bf16> entries;               // [entries, 2, kv_heads, dim]
    simt::Global<const std::uint32_t>
        entry;  // [rows], all different; null: that of the row's number
    simt::Global<const std::uint32_t> n_rows;          // on the device, at most max_rows
    std::uint32_t max_rows, n_heads, n_kv_heads, dim;  // dim even, at most 128
    float eps;
};

void draft_prepare(const DraftPrepareParams &params, simt::Stream stream);

}  // namespace kimi
