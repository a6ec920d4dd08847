#include "backend/cpu/top_k.h"

#include <cmath>
#include <limits>

namespace kimi {

void top_k_log_softmax(std::span<const float> logits, std::uint32_t k, std::int32_t *tokens,
                       double *log_probability) {
    // An insertion into the sorted list of the best so far: rare behind the first few tokens.
    std::uint32_t n = 0;
    double bar = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const double logit =
            std::isnan(logits[i]) ? -std::numeric_limits<double>::infinity() : logits[i];
        if (n == k && !(logit > bar)) continue;
        std::uint32_t at = n < k ? n++ : n - 1;
        for (; at > 0 && !(log_probability[at - 1] >= logit); --at) {
            log_probability[at] = log_probability[at - 1];
            tokens[at] = tokens[at - 1];
        }
        log_probability[at] = logit;
        tokens[at] = static_cast<std::int32_t>(i);
        bar = log_probability[n - 1];
    }
    if (k == 0) return;
    const double top = log_probability[0];
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - top);
    const double log_sum = top + std::log(sum);
    for (std::uint32_t i = 0; i < k; ++i) log_probability[i] -= log_sum;
}

}  // namespace kimi
