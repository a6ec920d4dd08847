// The k largest of a row of logits and their log-softmax, found by each rank among its own tokens.
#pragma once

#include <cstdint>
#include <span>

#include "backend/communicator.h"
#include "backend/step_plan.h"

namespace kimi {

// What a rank knows of its tokens in one row.
struct TopK {
    std::uint32_t n = 0;  // tokens found
    std::int32_t token[kMaxTreeNodes];
    double logit[kMaxTreeNodes];  // falling
    double sum;                   // over all its tokens of exp(logit - logit[0])
};

// The k best tokens, at most kMaxTreeNodes, lower token first on ties; logits[0] is that of token
// `first`.
void find_top_k(std::span<const float> logits, std::uint32_t first, std::uint32_t k, TopK &out);

// The k best tokens of all ranks, which are in order of their tokens, and their log-softmax.
void merge_top_k(std::span<const TopK *const> ranks, std::uint32_t k, std::int32_t *tokens,
                 double *log_probability);

}  // namespace kimi
