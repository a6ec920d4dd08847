// New tokens of a layer: their KV into its pages, and the rotation of their queries.
//
//   kv [rows, 512 | 64] fp32: latent / sqrt(mean(latent^2) + eps) * norm; the 32 pairs of
//   neighbours of the rest are rotated. Stored as the page has it: bf16, or fp8 with a scale per
//   128 latents that makes the largest of them 448 (kv_layout.h). q [rows, heads, nope | 64] bf16:
//   the rotated rest goes to the end of [rows, heads, 512 | 64].
//
// Bytes that must move per row: 2304 + 128 per head in, 1152 (bf16) or 656 (fp8) + 128 per head
// out.
#pragma once

#include "kernels/kv_layout.h"
#include "kernels/simt/types.h"

namespace kimi {

struct MlaPrepareParams {
    simt::Global<const float> kv;      // [rows, 576], aligned to 16 bytes
    simt::Global<const bf16> norm;     // [512]
    simt::Global<const float> rope;    // [rows, 32 cos | 32 sin] (rope_table.h)
    simt::Global<const bf16> q;        // [rows, heads, nope + 64]; nope even
    simt::Global<bf16> q_absorbed;     // [rows, heads, 576]
    simt::Global<std::uint8_t> pages;  // of this layer, aligned to 16 bytes
    // Where a row's KV goes: page * 64 + place in the page. Rows of a step have different ones.
    simt::Global<const std::uint32_t> cell;    // [rows]
    simt::Global<const std::uint32_t> n_rows;  // on the device, at most max_rows
    std::uint32_t max_rows, n_heads, nope;
    bool fp8;
    float eps;
    // Where the KV is in shards, `pages` gets what the rank holds, and the pass's own whole page of
    // this layer gets all: row r as token r. Otherwise null.
    KvShard shard = {};
    simt::Global<std::uint8_t> fresh = {};  // aligned to 16 bytes
};

void mla_prepare(const MlaPrepareParams &params, simt::Stream stream);

}  // namespace kimi
