// The same as kv_compact.h where the KV is in shards: the rows of an accepted path may go to the
// pages of another rank than that which holds their own places. So every rank takes them from its
// copy of what the pass wrote, and writes what it holds.
//
// Bytes that must move: those of each token that the rank holds, in and out.
#pragma once

#include "kernels/kv_compact.h"

namespace kimi {

struct KvCommitParams {
    simt::Global<const std::uint8_t> fresh;  // [layers, whole page]: token r is row r's
    simt::Global<std::uint8_t> pages;        // [layers, pages], both aligned to 16 bytes
    std::int64_t layer_bytes;                // of pages, from layer to layer
    std::uint32_t n_layers;
    bool fp8;
    KvShard shard;
    simt::Global<const std::uint32_t> from;     // [max_moves] rows
    simt::Global<const std::uint32_t> to;       // [max_moves] cells: page * 64 + place in the page
    simt::Global<const std::uint32_t> n_moves;  // on the device, at most max_moves
    std::uint32_t max_moves;
};

void kv_commit(const KvCommitParams &params, simt::Stream stream);

}  // namespace kimi
