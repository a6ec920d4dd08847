// Attention of drafted blocks: the rows of a sequence see each other both ways and the context
// before them, grouped queries sharing a KV head; in sliding layers a row sees a position of the
// context iff it is less than `window` behind the row's own. Partial results, combined by
// attention_merge.
//
// Keys and values are entries (draft_prepare.h): of the context, in the twins of the target's pages
// or in the sequence's ring, at position % ring_slots; of the block, one per row.
#pragma once

#include <cstddef>

#include "kernels/simt/types.h"

namespace kimi {

inline constexpr std::uint32_t kDraftTile = 64;

struct alignas(16) DraftSpan {
    std::uint32_t first_row, n_rows;  // of the sequence, at positions from first_position on
    std::uint32_t first_position;
    std::uint32_t begin;  // of the context that is written: positions [begin, first_position)
    std::uint32_t ring;
    std::uint32_t reserved[3];
};

struct DraftAttendParams {
    simt::Global<const bf16> q;                     // [rows, heads, dim]
    simt::Global<const bf16> block;                 // entries of the rows
    simt::Global<const bf16> context;               // entries of this layer, aligned to 16 bytes
    simt::Global<const std::uint32_t> n_sequences;  // on the device, at most max_sequences
    simt::Global<const DraftSpan> sequences;
    simt::Global<const std::uint32_t> pages;  // [sequences, pages_stride], or null: rings
    std::uint32_t pages_stride, ring_slots;
    std::uint32_t window;                    // 0: no limit
    std::uint32_t max_sequences, max_rows;   // max_rows of one sequence
    std::uint32_t max_context, splits;       // the context is cut into at most so many parts
    std::uint32_t n_heads, n_kv_heads, dim;  // dim 32, 64 or 128
    // As in attention_merge.h; part 0 is the block. [splits + 1 parts, row_capacity, heads, dim]
    simt::Global<float> part_out;
    simt::Global<float> part_lse;
    simt::Global<std::uint32_t> n_parts;  // [rows]
    int row_capacity;
};

// Tiles of the context that one part has: from the context alone.
constexpr std::uint32_t draft_tiles_per_split(std::uint32_t n_tiles, std::uint32_t splits) {
    return n_tiles <= splits ? 1 : (n_tiles + splits - 1) / splits;
}
std::size_t draft_attend_shared_bytes(std::uint32_t dim);

void draft_attend(const DraftAttendParams &params, simt::Stream stream);

}  // namespace kimi
