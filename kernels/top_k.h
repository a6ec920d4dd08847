// The k best tokens of each row of logits, lower id first on ties, and their log-softmax.
//
// A NaN is never better than a number, and makes the log-softmax of its row NaN. Exponentials in
// fp32, their sum in fp64, in an order that depends on the vocabulary alone. Two launches. Bytes
// that must move: 4 * vocab per row.
#pragma once

#include <cstddef>

#include "kernels/simt/types.h"

namespace kimi {

inline constexpr std::uint32_t kTopKMax = 64, kTopKChunk = 2048;

struct TopKParams {
    simt::Global<const float> logits;          // [rows, vocab]
    simt::Global<const std::uint32_t> n_rows;  // on the device, at most max_rows
    std::uint32_t max_rows, vocab, k;          // 1 <= k <= 64, k <= vocab
    simt::Global<std::int32_t> token;          // [rows, k], best first
    simt::Global<double> log_probability;      // [rows, k]
    // Scratch for max_rows * top_k_chunks(vocab) parts: k keys, and the largest logit and the sum
    // of each.
    simt::Global<unsigned long long> part_keys;
    simt::Global<double> part_sums;  // [parts, 2]
};

constexpr std::uint32_t top_k_chunks(std::uint32_t vocab) {
    return (vocab + kTopKChunk - 1) / kTopKChunk;
}

void top_k(const TopKParams &params, simt::Stream stream);

}  // namespace kimi
