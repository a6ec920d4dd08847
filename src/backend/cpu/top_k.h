// The best tokens of a row of logits.
#pragma once

#include <cstdint>
#include <span>

namespace kimi {

// The k <= logits.size() largest logits, lower id first on ties, with their log-softmax in double:
// NaN where a logit is.
void top_k_log_softmax(std::span<const float> logits, std::uint32_t k, std::int32_t *tokens,
                       double *log_probability);

}  // namespace kimi
