#include "spec/sampler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "check.h"

using namespace kimi;

namespace {

std::vector<float> random_logits(std::uint32_t vocab, float spread, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> logits(vocab);
    // Coarse values, so that there are ties.
    for (float &x : logits) x = std::round(normal(random) * 16) / 16;
    return logits;
}

// The probabilities that remain, filter by filter over the whole vocabulary.
std::map<std::int32_t, double> naive_distribution(std::span<const float> logits,
                                                  const SamplingOptions &o) {
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return logits[a] > logits[b]; });
    if (o.top_k > 0 && o.top_k < order.size()) order.resize(o.top_k);
    const auto normalised = [&] {
        std::map<std::int32_t, double> p;
        double sum = 0;
        for (const auto t : order)
            sum += p[t] = std::exp((double{logits[t]} - logits[order[0]]) / o.temperature);
        for (auto &[t, x] : p) x /= sum;
        return p;
    };
    if (o.top_p > 0 && o.top_p < 1) {
        auto p = normalised();
        double sum = 0;
        std::size_t n = 0;
        while (n < order.size() && sum < o.top_p) sum += p[order[n++]];
        order.resize(n);
    }
    if (o.min_p > 0) {
        auto p = normalised();
        std::erase_if(order, [&, top = p[order[0]]](auto t) { return p[t] < o.min_p * top; });
    }
    return normalised();
}

}  // namespace

TEST_CASE("sampler: greedy takes the largest logit, lower id first") {
    Sampler sampler(6);
    const std::vector<float> logits = {1, 3, 2, 3, -5, 3};
    CHECK(sampler.sample(logits, {.temperature = 0}, 0) == 1);
}

TEST_CASE("sampler: NaN and infinite logits are an error, not a token") {
    Sampler sampler(4);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()})
        for (const float temperature : {0.0f, 1.0f}) {
            const std::vector<float> logits = {1, 2, bad, 0};
            const Error error =
                test::error_of([&] { sampler.sample(logits, {.temperature = temperature}, 0); });
            CHECK(error.status == KIMI_NUMERIC);
            CHECK(test::contains(error.text, "token 2"));
        }
}

TEST_CASE("sampler: the choice is the same whatever was filtered beside it") {
    // Without filters the noise alone decides; a filter that keeps the chosen token must not change
    // it.
    const std::vector<float> logits = random_logits(500, 2, 1);
    Sampler sampler(500);
    for (std::uint64_t position = 0; position < 200; ++position) {
        const std::int32_t chosen = sampler.sample(logits, {.seed = 9}, position);
        const auto better = std::count_if(logits.begin(), logits.end(),
                                          [&](float x) { return x > logits[chosen]; });
        const auto ties = std::count(logits.begin(), logits.end(), logits[chosen]);
        SamplingOptions filtered{.seed = 9, .top_k = static_cast<std::uint32_t>(better + ties)};
        CHECK(sampler.sample(logits, filtered, position) == chosen);
    }
}

TEST_CASE("sampler: frequencies follow the filtered softmax (chi-square)") {
    const std::vector<float> logits = random_logits(300, 3, 2);
    Sampler sampler(300);
    const SamplingOptions cases[] = {
        {.seed = 1, .temperature = 1},
        {.seed = 2, .temperature = 0.6f, .top_p = 0.95f},
        {.seed = 3, .temperature = 1.5f, .top_k = 7},
        {.seed = 4, .temperature = 1, .min_p = 0.05f},
        {.seed = 5, .temperature = 1.2f, .top_p = 0.8f, .min_p = 0.02f, .top_k = 40},
        {.seed = 6, .temperature = 3, .top_p = 0.999f},
    };
    constexpr int kDraws = 20000;
    for (const SamplingOptions &options : cases) {
        CAPTURE(options.seed);
        const auto expected = naive_distribution(logits, options);
        std::map<std::int32_t, int> seen;
        for (int position = 0; position < kDraws; ++position)
            ++seen[sampler.sample(logits, options, static_cast<std::uint64_t>(position))];
        double chi2 = 0, rare_expected = 0;
        int rare_seen = kDraws, bins = 0;
        for (const auto &[token, p] : expected) {
            if (p * kDraws < 8) {
                rare_expected += p * kDraws;
                continue;
            }
            chi2 += std::pow(seen[token] - p * kDraws, 2) / (p * kDraws);
            rare_seen -= seen[token];
            ++bins;
        }
        if (rare_expected > 8)
            chi2 += std::pow(rare_seen - rare_expected, 2) / rare_expected, ++bins;
        for (const auto &[token, n] : seen) CHECK(expected.contains(token));
        // 4.5 standard deviations of chi-square with bins - 1 degrees of freedom
        CHECK(chi2 < bins - 1 + 4.5 * std::sqrt(2.0 * bins));
    }
}

TEST_CASE("sampler: top_p over a large flat vocabulary counts the right tokens") {
    // Equal logits: top_p keeps the lowest ids, ceil(top_p * n) of them.
    const std::vector<float> logits(10000, 0.5f);
    Sampler sampler(10000);
    std::int32_t highest = 0;
    for (std::uint64_t position = 0; position < 3000; ++position)
        highest = std::max(highest, sampler.sample(logits, {.top_p = 0.25f}, position));
    CHECK(highest < 2500);
    CHECK(highest > 2480);
}

TEST_CASE("sampler: tokens that are not allowed do not exist") {
    std::mt19937 random(8);
    Sampler sampler(300);
    for (int round = 0; round < 400; ++round) {
        const std::vector<float> logits = random_logits(300, 3, static_cast<unsigned>(random()));
        std::vector<std::uint64_t> allowed(5);
        const unsigned share = 1 + random() % 20;
        for (std::uint32_t token = 0; token < 300; ++token)
            if (random() % share == 0) allowed[token / 64] |= std::uint64_t{1} << token % 64;
        allowed[2] |= 1;
        // The same logits, but the others' too small to matter.
        std::vector<float> few = logits;
        for (std::uint32_t token = 0; token < 300; ++token)
            if ((allowed[token / 64] >> token % 64 & 1) == 0) few[token] = -1e30f;
        SamplingOptions options;
        options.seed = random();
        options.temperature = round % 4 == 0 ? 0 : 1.5f;
        options.top_k = round % 3 == 0 ? 7 : 0;
        options.top_p = round % 5 == 0 ? 0.8f : 0;
        options.min_p = round % 7 == 0 ? 0.1f : 0;
        for (std::uint64_t position = 0; position < 5; ++position)
            CHECK(sampler.sample(logits, options, position, allowed) ==
                  sampler.sample(few, options, position));
    }
}
