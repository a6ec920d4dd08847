#include "backend/cpu/top_k.h"

#include <cmath>
#include <limits>

namespace kimi {

void find_top_k(std::span<const float> logits, std::uint32_t first, std::uint32_t k, TopK &out) {
    // An insertion into the sorted list of the best so far: rare behind the first few tokens.
    std::uint32_t n = 0;
    double bar = -std::numeric_limits<double>::infinity();
    for (std::uint32_t i = 0; i < logits.size() && k > 0; ++i) {
        const double logit =
            std::isnan(logits[i]) ? -std::numeric_limits<double>::infinity() : logits[i];
        if (n == k && !(logit > bar)) continue;
        std::uint32_t at = n < k ? n++ : n - 1;
        for (; at > 0 && !(out.logit[at - 1] >= logit); --at) {
            out.logit[at] = out.logit[at - 1];
            out.token[at] = out.token[at - 1];
        }
        out.logit[at] = logit;
        out.token[at] = static_cast<std::int32_t>(first + i);
        bar = out.logit[n - 1];
    }
    out.n = n;
    out.sum = 0;
    if (n == 0) return;
    for (const float logit : logits) out.sum += std::exp(logit - out.logit[0]);
}

void merge_top_k(std::span<const TopK *const> ranks, std::uint32_t k, std::int32_t *tokens,
                 double *log_probability) {
    std::uint32_t n_taken[kMaxRanks] = {};
    for (std::uint32_t i = 0; i < k; ++i) {
        // The first of equals: ranks are in order of their tokens.
        std::size_t best = ranks.size();
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
            if (n_taken[rank] == ranks[rank]->n) continue;
            if (best == ranks.size() ||
                ranks[rank]->logit[n_taken[rank]] > ranks[best]->logit[n_taken[best]])
                best = rank;
        }
        tokens[i] = ranks[best]->token[n_taken[best]];
        log_probability[i] = ranks[best]->logit[n_taken[best]++];
    }
    if (k == 0) return;
    const double top = log_probability[0];
    double sum = 0;
    for (const TopK *rank : ranks) sum += rank->sum * std::exp(rank->logit[0] - top);
    const double log_sum = top + std::log(sum);
    for (std::uint32_t i = 0; i < k; ++i) log_probability[i] -= log_sum;
}

}  // namespace kimi
