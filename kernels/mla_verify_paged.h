// Absorbed latent attention of a few rows per sequence over the paged KV cache, split over the
// context. The parts are combined by attention_merge.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kv_layout.h"
#include "kernels/step_tables.h"

namespace kimi {

// A context of c tokens ends in tile (c - 1) / 64. That tile and the one before it are the row's
// tail: every slot that an ancestor word can name lies there, so each row reads its tail by itself.
// The tiles before it are the same for all rows of a sequence and are cut into splits.
constexpr int mla_shared_pages(int context) {
    const int last = (context - 1) / kMlaPageTokens;
    return context > kMlaPageTokens && last > 1 ? last - 1 : 0;
}
// Borders depend on the context and on `splits`, which is fixed in a deployment, and on nothing
// else.
constexpr int mla_pages_per_split(int shared_pages, int splits) {
    return shared_pages <= splits ? 1 : (shared_pages + splits - 1) / splits;
}

// How many splits a long context gets: a wave of blocks over the SMs of the device for each group
// of 64 queries of one row, fewer where several sequences fill the SMs anyway and every split costs
// its partial results.
int mla_splits(int n_sms, int n_heads, int max_sequences);

// The maxima that a launch is made for.
struct MlaBucket {
    int rows, n_heads;  // of a sequence
    int sequences;
    int context;
};
// What mla_grid would choose itself where it is 0.
struct MlaFold {
    int queries_per_block = 0, splits_per_block = 0;
};

// The blocks of one launch. They change what runs where, not a bit of the result.
struct MlaGrid {
    int splits = 0;             // of a long context: mla_splits
    int queries_per_block = 0;  // rows x heads that share one pass over the KV, 1..64
    int groups = 0;             // of a sequence's queries
    int launched_splits = 0;    // in this bucket
    int splits_per_block = 1;
    int tails = 0;  // of a sequence: blocks that read one row's tail
    int sequences = 0;

    constexpr int split_blocks() const {
        return (launched_splits + splits_per_block - 1) / splits_per_block;
    }
    constexpr int shared_blocks() const { return groups * split_blocks() * sequences; }
    constexpr int blocks() const { return shared_blocks() + tails * sequences; }
    constexpr int parts() const { return launched_splits + 1; }
};
// Queries are cut into equal groups of at most 64, and splits are given to blocks so that at most 3
// waves over the SMs are launched, if that is possible, and the time of all waves is least.
MlaGrid mla_grid(const MlaBucket &bucket, int splits, int n_sms, const MlaFold &fold = {});

// Where the KV is in shards, a row's queries attend to the positions of its context that the rank
// holds: tiles, tails and splits are made of those, in their order. Positions of a tree are read
// from the pass's own page (mla_prepare.h), which has all rows of the pass, so that a path's rank
// is the same before and after it is moved into place.
struct MlaVerifyParams {
    simt::Global<const bf16> q;  // [rows, heads, 512 absorbed | 64 rotated], aligned to 4 bytes
    simt::Global<const std::uint8_t>
        kv;  // [pages, page] of this layer (kv_layout.h), aligned to 16 bytes
    bool fp8;
    int n_heads;
    float scale;  // of the scores
    StepTables step;
    MlaGrid grid;
    // Normalised output and base-2 logarithm of the sum of exponentials over each part of the
    // context; part 0 is the tail. Only the parts that a row has are written, and of an empty one
    // (-inf) only the logarithm.
    simt::Global<float> part_out;         // [parts, rows, heads, 512]
    simt::Global<float> part_lse;         // [parts, rows, heads]
    simt::Global<std::uint32_t> n_parts;  // [rows], 1 or more
    int row_capacity;                     // rows of the three buffers
    KvShard shard = {};
    simt::Global<const std::uint8_t> fresh = {};  // of this layer; null: the pages are whole
};

std::size_t mla_shared_bytes(bool fp8);  // of a block

void mla_verify_paged(const MlaVerifyParams &params, simt::Stream stream);

}  // namespace kimi
