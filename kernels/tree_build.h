// The draft tree of each sequence, from the drafter's lists: spec/draft_tree.h's best-first search
// (DDTree), and the rows that verify it. A chain is a tree of lists with k = 1.
//
// Costs are updated in fp64 as there, so that the same lists give the same tree. A pass has a fixed
// number of rows for each sequence: nodes that are left over are only listed, rows that are left
// over see the root and themselves, so that they are no part of the tree. Bytes that must move:
// 12 * depth * k in, 17 per row and 8 per node out.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

inline constexpr std::uint32_t kTreeRows = 64, kTreeMaxDepth = 16;
inline constexpr std::uint8_t kNoParent = 255;

struct TreeBuildParams {
    simt::Global<const std::int32_t> token;           // [sequences, depth, k], best first (top_k.h)
    simt::Global<const double> log_probability;       // [sequences, depth, k]
    std::uint32_t depth, k;                           // at most 16 and 64
    simt::Global<const std::uint32_t> n_sequences;    // on the device, at most max_sequences
    simt::Global<const std::uint32_t> budget;         // [sequences] nodes, at most 63
    simt::Global<const std::uint32_t> first_row;      // [sequences] in the pass
    simt::Global<const std::uint32_t> rows;           // [sequences] of the pass, 1 to 64
    simt::Global<const std::int32_t> root_token;      // [sequences]
    simt::Global<const std::uint32_t> root_position;  // [sequences]
    std::uint32_t max_sequences;
    simt::Global<std::uint32_t> n_nodes;        // [sequences] of the tree
    simt::Global<double> node_log_probability;  // [sequences, 64] of their paths
    // Of the pass: behind a sequence's first row, which is the root, row i is node i - 1.
    simt::Global<std::int32_t> row_token;
    simt::Global<std::uint32_t> row_position;
    simt::Global<std::uint64_t> row_word;   // the row itself and its ancestors
    simt::Global<std::uint8_t> row_parent;  // a row of the sequence; kNoParent: not in the tree
};

void tree_build(const TreeBuildParams &params, simt::Stream stream);

}  // namespace kimi
