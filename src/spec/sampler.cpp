#include "spec/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "spec/philox.h"

namespace kimi {
namespace {

void check_finite(std::span<const float> logits) {
    // x - x is 0 for finite x and NaN otherwise.
    float bad = 0;
    for (const float x : logits) bad += x - x;
    if (bad == 0) return;
    const auto at =
        std::find_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
    fail(KIMI_NUMERIC, "the model's logit of token ", at - logits.begin(), " is ",
         std::isnan(*at) ? "NaN" : "infinite");
}

template <typename F>
void for_each_allowed(std::uint32_t vocab, std::span<const std::uint64_t> allowed, F &&f) {
    if (allowed.empty())
        for (std::uint32_t token = 0; token < vocab; ++token) f(token);
    for (std::uint32_t i = 0; i < allowed.size(); ++i)
        for (std::uint64_t word = allowed[i]; word != 0; word &= word - 1)
            f(i * 64 + static_cast<std::uint32_t>(std::countr_zero(word)));
}

}  // namespace

double gumbel(std::uint64_t seed, std::uint64_t position, std::uint32_t token) {
    const auto words =
        philox4x32({token / 4, static_cast<std::uint32_t>(position),
                    static_cast<std::uint32_t>(position >> 32), 0},
                   {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    const double uniform = (words[token % 4] + 0.5) * 0x1p-32;
    return -std::log(-std::log(uniform));
}

Sampler::Sampler(std::uint32_t vocab) {
    order_.reserve(vocab);
}

void Sampler::sort_best(std::span<const float> logits, std::size_t n) {
    const auto better = [&](std::uint32_t a, std::uint32_t b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    };
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(n_sorted_);
    const auto last = order_.begin() + static_cast<std::ptrdiff_t>(n);
    if (last < order_.end()) std::nth_element(first, last, order_.end(), better);
    std::sort(first, last, better);
    n_sorted_ = n;
}

// How many of the best n tokens make up top_p of their probability.
std::size_t Sampler::count_top_p(std::span<const float> logits, const SamplingOptions &options,
                                 std::size_t n) {
    sort_best(logits, std::min<std::size_t>(n, std::max<std::size_t>(n_sorted_, 64)));
    const double top = logits[order_[0]];
    const auto mass = [&](std::uint32_t token) {
        return std::exp((logits[token] - top) / options.temperature);
    };
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) total += mass(order_[i]);
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
        if (i == n_sorted_) sort_best(logits, std::min(n, 8 * n_sorted_));
        sum += mass(order_[i]);
        if (sum >= options.top_p * total) return i + 1;
    }
    return n;
}

std::int32_t Sampler::sample(std::span<const float> logits, const SamplingOptions &options,
                             std::uint64_t position, std::span<const std::uint64_t> allowed) {
    check_finite(logits);
    const auto vocab = static_cast<std::uint32_t>(logits.size());
    std::int32_t best = -1;
    for_each_allowed(vocab, allowed, [&](std::uint32_t token) {
        if (best < 0 || logits[token] > logits[static_cast<std::uint32_t>(best)])
            best = static_cast<std::int32_t>(token);
    });
    KIMI_CHECK(best >= 0);
    if (options.temperature == 0) return best;
    const float highest_logit = logits[static_cast<std::uint32_t>(best)];

    order_.clear();
    n_sorted_ = 0;
    for_each_allowed(vocab, allowed, [&](std::uint32_t token) { order_.push_back(token); });
    std::size_t n = order_.size();
    if (options.top_k > 0 && options.top_k < n) sort_best(logits, n = options.top_k);
    if (options.top_p > 0 && options.top_p < 1) n = count_top_p(logits, options, n);

    const double inverse = 1.0 / options.temperature;
    const double floor = options.min_p > 0
                             ? highest_logit * inverse + std::log(double{options.min_p})
                             : -std::numeric_limits<double>::infinity();
    double highest = 0;
    std::int64_t chosen = -1;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t token = order_[i];
        const double scaled = logits[token] * inverse;
        if (scaled < floor) continue;
        const double value = scaled + gumbel(options.seed, position, token);
        if (chosen < 0 || value > highest || (value == highest && token < chosen))
            highest = value, chosen = token;
    }
    return static_cast<std::int32_t>(chosen);
}

}  // namespace kimi
