// What one forward pass computes: a plain list of rows.
#pragma once

#include <cstdint>
#include <span>

namespace kimi {

inline constexpr std::uint32_t kPageTokens = 64;
inline constexpr std::uint32_t kMaxTreeNodes = 63;

// The rows [first_row, first_row + n_rows) of one sequence and its block table: slot s of the
// sequence lies in page pages[s / 64] at s % 64.
struct PlanSequence {
    std::uint32_t first_row = 0, n_rows = 0;
    std::span<const std::uint32_t> pages;
};

// Prefill chunks, single tokens, chains and trees differ only in numbers. Row i writes its KV to
// slot slot[i] and sees slot s iff s < base[i] or bit s - base[i] of word[i] is set. Prompt rows
// have base = own slot + 1 and word 0; tree rows have base = the root's slot and a word with the
// bits of the row itself and its ancestors. Depth order of the nodes is their order of slots along
// a path. The root is the first row of its sequence, and bit j is its row j: a tree is written by
// the pass that reads it.
struct StepPlan {
    std::span<const std::int32_t> token;       // [rows]
    std::span<const std::uint32_t> position;   // [rows] of rope: the depth in the sequence
    std::span<const std::uint32_t> slot;       // [rows]
    std::span<const std::uint32_t> base;       // [rows]
    std::span<const std::uint64_t> word;       // [rows]
    std::span<const PlanSequence> sequences;   // in order of their rows, covering all
    std::span<const std::uint32_t> logit_row;  // rows whose logits are wanted, ascending

    std::uint32_t n_rows() const { return static_cast<std::uint32_t>(token.size()); }
};

}  // namespace kimi
