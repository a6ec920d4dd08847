// The target's choice of a token from each row of logits; the meaning is spec/sampler.h's.
//
// Temperature 0: the largest logit, lower id first. Otherwise top-k, top-p and min-p leave some
// tokens, and the one with the largest logit / temperature + gumbel(seed, position, token) is
// chosen. Masses are summed as integers, so that no result depends on an order; where noise
// decides, fp32 finds the candidates and fp64 the winner.
//
// Bytes that must move: 4 * vocab per row, from DRAM or L2; up to nine passes over them in L2.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct alignas(16) SampleOptions {
    std::uint64_t seed;
    float temperature, top_p, min_p;  // 0 is greedy; 0 and 1 are off; 0 is off
    std::uint32_t top_k;              // 0 is off
    std::uint32_t reserved[2];
};

struct SampleParams {
    simt::Global<const float> logits;            // [rows, vocab], aligned to 16 bytes
    simt::Global<const SampleOptions> options;   // [rows]
    simt::Global<const std::uint32_t> position;  // [rows] the chosen token gets the next one
    simt::Global<const std::uint32_t> n_rows;    // on the device, at most max_rows
    std::uint32_t max_rows, vocab;               // vocab a multiple of 4, at least 4
    simt::Global<std::int32_t> token;            // [rows]; -1 where a logit is NaN or infinite
};

void sample(const SampleParams &params, simt::Stream stream);

}  // namespace kimi
