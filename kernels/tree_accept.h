// Which rows of a verified tree are committed: from the root on, the child that has the target's
// token, as long as there is one; then the target's token after the last of them. And the KV moves
// that put the path where it would have been.
//
// Rows are those of tree_build.h. Bytes that must move: 12 per row in, 8 to 16 per committed row
// out.
#pragma once

#include "kernels/tree_build.h"

namespace kimi {

struct TreeAcceptParams {
    simt::Global<const std::uint32_t> n_sequences;  // on the device, at most max_sequences
    std::uint32_t max_sequences;
    simt::Global<const std::uint32_t> first_row, rows;  // [sequences]
    simt::Global<const std::int32_t> row_token;
    simt::Global<const std::uint8_t> row_parent;
    simt::Global<const std::int32_t> target;  // the target's choice after each row
    simt::Global<const std::uint32_t> cell;   // where each row's KV is (mla_prepare.h)
    simt::Global<std::uint32_t> n_committed;  // [sequences] rows of the path, root included
    // From a sequence's first row on: these rows, counted from there, and the tokens after each.
    simt::Global<std::uint32_t> path;
    simt::Global<std::int32_t> token;
    // Of all sequences together; n_moves is 0 before (and kv_compact.h's input after) the launch.
    simt::Global<std::uint32_t> n_moves;   // [1]
    simt::Global<std::uint32_t> from, to;  // [sequences * 63] cells
    bool from_rows = false;                // `from` are rows: kv_commit.h's input
};

void tree_accept(const TreeAcceptParams &params, simt::Stream stream);

}  // namespace kimi
