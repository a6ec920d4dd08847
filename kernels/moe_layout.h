// int4 experts as the kernels read them, and what moe_route tells moe_experts.
//
// The checkpoint has [rows, inputs / 8] words of 8 offset-binary nibbles, lowest first, and a bf16
// scale per row and 32 inputs. Repacked, the weights of a matrix are units of 16 rows x 64 inputs,
// [tiles, units] with the units of a tile in order of their inputs:
//
//   512 B of words [lane][4]: lane 4g + t has the words of inputs 8t..8t+7 of {row g, row g + 8} of
//   the unit's first 32 inputs, then of its second; so one 16-byte load gives a lane its operands
//   of four mma. In a word, inputs 0, 2, 4, 6 have the low nibbles and 1, 3, 5, 7 the high ones, so
//   that a mask leaves a pair of neighbours.
//   64 B of scales [g][4]: {row g, row g + 8} of the first 32 inputs, then of the second.
//
// The 16 rows of a tile of gate and up are 8 of gate, then the same 8 of up; those of down follow
// each other. All of a matrix's words come first, then all scales. Nothing is rounded: repacking is
// a permutation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simt/types.h"

namespace kimi {

inline constexpr std::uint32_t kMoeUnitInputs = 64, kMoeTileRows = 16;
inline constexpr std::uint32_t kMoeUnitWords = 128, kMoeUnitScales = 32;
inline constexpr std::uint32_t kMoeSliceRows = 64, kMoeMaxTopK = 8, kMoeMaxExperts = 512;

inline constexpr std::uint32_t kMoeElsewhere = ~0U;

// Units of a matrix of 16 * tiles rows.
constexpr std::size_t moe_units(std::uint32_t rows, std::uint32_t inputs) {
    return std::size_t{rows / kMoeTileRows} * (inputs / kMoeUnitInputs);
}
// Bytes of a matrix, words and scales.
constexpr std::size_t moe_matrix_bytes(std::uint32_t rows, std::uint32_t inputs) {
    return moe_units(rows, inputs) * (kMoeUnitWords * 4 + kMoeUnitScales * 2);
}

// Up to 8 of the (row, expert) pairs of one expert: those of a slice are sorted by expert, then
// row.
struct alignas(16) MoeTile {
    std::uint32_t expert, first, n, reserved;
};
// All pairs of one expert: first + i is the i-th row whose bit is set.
struct alignas(16) MoeGroup {
    std::uint64_t rows;
    std::uint32_t expert, first;
};

// Rows in slices of 64, the last of which may be smaller.
constexpr std::uint32_t moe_slices(std::uint32_t rows) {
    return (rows + kMoeSliceRows - 1) / kMoeSliceRows;
}

// Written by moe_route, in device memory: each slice has a plan of its own, in which rows and pairs
// count from its first one. Its arrays have max_rows * top_k elements and lie 64 * top_k apart.
struct MoePlan {
    simt::Global<std::uint32_t> n_tiles, n_groups;  // [slices]
    simt::Global<MoeTile> tiles;
    simt::Global<MoeGroup> groups;
    simt::Global<std::uint32_t> pair_row;  // of each pair
    simt::Global<float> pair_weight;
};

}  // namespace kimi
