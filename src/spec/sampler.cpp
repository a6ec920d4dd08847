#include "spec/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

}  // namespace

double gumbel(std::uint64_t seed, std::uint64_t position, std::uint32_t token) {
    const auto words =
        philox4x32({token / 4, static_cast<std::uint32_t>(position),
                    static_cast<std::uint32_t>(position >> 32), 0},
                   {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    const double uniform = (words[token % 4] + 0.5) * 0x1p-32;
    return -std::log(-std::log(uniform));
}

Sampler::Sampler(std::uint32_t vocab) : order_(vocab) {}

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
                             std::uint64_t position) {
    check_finite(logits);
    const auto best = std::max_element(logits.begin(), logits.end());
    if (options.temperature == 0) return static_cast<std::int32_t>(best - logits.begin());

    std::iota(order_.begin(), order_.end(), 0U);
    n_sorted_ = 0;
    std::size_t n = logits.size();
    if (options.top_k > 0 && options.top_k < n) sort_best(logits, n = options.top_k);
    if (options.top_p > 0 && options.top_p < 1) n = count_top_p(logits, options, n);

    const double inverse = 1.0 / options.temperature;
    const double floor = options.min_p > 0 ? *best * inverse + std::log(double{options.min_p})
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
