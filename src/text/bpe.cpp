#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace kimi {

void BpeEncoder::encode(std::string_view piece, std::vector<std::int32_t> &tokens) {
    if (piece.empty()) return;
    if (const std::uint32_t rank = ranks_->find(piece); rank != RankTable::kNone) {
        tokens.push_back(static_cast<std::int32_t>(rank));
        return;
    }
    merge(piece);
    for (std::uint32_t i = 0; i < piece.size(); i = next_[i])
        tokens.push_back(static_cast<std::int32_t>(ranks_->find(piece.substr(i, next_[i] - i))));
}

void BpeEncoder::merge(std::string_view piece) {
    const auto n = static_cast<std::uint32_t>(piece.size());
    next_.resize(n);
    previous_.resize(n + 1);
    std::iota(next_.begin(), next_.end(), 1U);
    std::iota(previous_.begin(), previous_.end(), UINT32_MAX);
    heap_.clear();
    for (std::uint32_t i = 0; i < n; ++i) push_pair(piece, i);
    while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        const auto rank = static_cast<std::uint32_t>(heap_.back() >> 32);
        const auto left = static_cast<std::uint32_t>(heap_.back());
        heap_.pop_back();
        const std::uint32_t right = next_[left];
        const std::uint32_t end = left + static_cast<std::uint32_t>(ranks_->bytes(rank).size());
        if (right == 0 || right == n || next_[right] != end) continue;
        next_[left] = end;
        next_[right] = 0;
        previous_[end] = left;
        push_pair(piece, left);
        if (left > 0) push_pair(piece, previous_[left]);
    }
}

// Queues the join of the token that begins at left with the one after it.
void BpeEncoder::push_pair(std::string_view piece, std::uint32_t left) {
    const std::uint32_t right = next_[left];
    if (right == piece.size()) return;
    const std::uint32_t rank = ranks_->find(piece.substr(left, next_[right] - left));
    if (rank == RankTable::kNone) return;
    heap_.push_back(std::uint64_t{rank} << 32 | left);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

}  // namespace kimi
