// The rows of the drafter's context pass after a step: the committed rows of all sequences, one
// sequence behind the other, and where their keys and values go.
//
// In and out 20 bytes per row.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct ContextRowsParams {
    simt::Global<const std::uint32_t> n_sequences;  // on the device, at most max_sequences
    std::uint32_t max_sequences;                    // at most 64; as many rows in all
    // Of tree_accept.h: rows of a path, from the sequence's first row on.
    simt::Global<const std::uint32_t> first_row, n_committed, path;
    simt::Global<const std::uint32_t> root_position;  // [sequences]
    simt::Global<const std::uint32_t> cell;           // of the rows of the step (mla_prepare.h)
    simt::Global<const std::uint32_t> ring;           // [sequences]
    std::uint32_t ring_slots;                         // 0: no rings
    simt::Global<std::uint32_t> n_rows, n_picked;     // [1] both the same
    // [rows] of the step, their positions, and their cells: in pages, and ring * ring_slots +
    // position % ring_slots.
    simt::Global<std::uint32_t> picked, position, page_cell, ring_cell;
};

void context_rows(const ContextRowsParams &params, simt::Stream stream);

}  // namespace kimi
