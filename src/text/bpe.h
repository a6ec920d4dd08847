// Byte pair encoding of one piece of text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/rank_table.h"

namespace kimi {

// Starts from single bytes and joins, again and again, the two neighbours whose joint bytes have
// the lowest rank, the leftmost of equals; a piece that is itself a token is taken whole. Takes
// O(n log n) for n bytes. An encoder keeps its work space between pieces: one per thread.
class BpeEncoder {
  public:
    explicit BpeEncoder(const RankTable &ranks) : ranks_(&ranks) {}
    // Appends the tokens of a piece of fewer than 2^32 bytes.
    void encode(std::string_view piece, std::vector<std::int32_t> &tokens);

  private:
    void merge(std::string_view piece);
    void push_pair(std::string_view piece, std::uint32_t left);

    const RankTable *ranks_;
    // For each byte where a token begins: the end of this token, and the begin of the one before.
    // Elsewhere next_ is 0.
    std::vector<std::uint32_t> next_, previous_;
    // A min-heap of joins: rank << 32 | where the left token begins. The rank gives the joint
    // length, by which outdated entries are recognised.
    std::vector<std::uint64_t> heap_;
};

}  // namespace kimi
