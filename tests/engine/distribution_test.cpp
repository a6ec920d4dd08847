#include <algorithm>
#include <map>

#include "engine/engine.h"
#include "model/harness.h"

using namespace kimi;

namespace {

constexpr float kTemperature = 1;

// The target's distribution of the token after these.
std::map<std::int32_t, double> distribution(test::Harness &harness,
                                            std::span<const std::int32_t> tokens) {
    const std::vector<float> logits = harness.prompt(tokens);
    const float top = *std::max_element(logits.begin(), logits.end());
    std::map<std::int32_t, double> p;
    double sum = 0;
    for (std::size_t t = 0; t < logits.size(); ++t)
        sum += p[static_cast<std::int32_t>(t)] = std::exp(double{logits[t] - top} / kTemperature);
    for (auto &[token, x] : p) x /= sum;
    return p;
}

// Chi-square of the counts against p; tokens that are expected less than 5 times form one bin.
void check_counts(const std::map<std::int32_t, int> &counts,
                  const std::map<std::int32_t, double> &p) {
    double n = 0;
    for (const auto &[token, count] : counts) n += count;
    double chi2 = 0, rare_expected = 0, rare_seen = 0;
    int bins = 0;
    for (const auto &[token, probability] : p) {
        const auto at = counts.find(token);
        const double seen = at == counts.end() ? 0 : at->second;
        if (probability * n < 5) {
            rare_expected += probability * n;
            rare_seen += seen;
            continue;
        }
        chi2 += std::pow(seen - probability * n, 2) / (probability * n);
        ++bins;
    }
    if (rare_expected >= 5) chi2 += std::pow(rare_seen - rare_expected, 2) / rare_expected, ++bins;
    MESSAGE(n, " draws, chi-square ", chi2, " over ", bins, " bins");
    REQUIRE(bins > 3);
    // four standard deviations above the mean of bins - 1 degrees of freedom
    CHECK(chi2 < bins - 1 + 4 * std::sqrt(2.0 * bins));
}

std::int32_t most_frequent(const std::map<std::int32_t, int> &counts) {
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto &a, const auto &b) { return a.second < b.second; })
        ->first;
}

}  // namespace

// The paths are those of other cases: only the frequencies are new, and a sanitizer has no say in
// them.
TEST_CASE("engine: sampled speculative output follows the target's distribution" *
          doctest::skip(test::kInstrumented)) {
    const auto engine = std::make_shared<Engine>(test::nano() + "/deployment.json", Progress());
    const std::vector<std::int32_t> prompt = {1234, 77, 2100, 901, 555};
    std::map<std::int32_t, int> first;
    std::map<std::int32_t, std::map<std::int32_t, int>> second;
    std::uint64_t n_accepted = 0;
    for (std::uint64_t seed = 0; seed < 800; ++seed) {
        SessionOptions options;
        options.sampling = {seed, kTemperature};
        options.draft_budget = 8;
        options.max_tokens = 3;
        options.ignore_stop = true;
        Session session(engine, options);
        session.append(prompt);
        std::vector<std::int32_t> reply;
        Session *batch[] = {&session};
        while (reply.size() < 3) {
            engine->step(batch);
            reply.insert(reply.end(), session.committed().begin(), session.committed().end());
        }
        n_accepted += session.stats().accepted;
        ++first[reply[0]];
        ++second[reply[0]][reply[1]];
    }
    CHECK(n_accepted > 20);  // the second and third tokens do come from drafts

    test::Harness harness;
    check_counts(first, distribution(harness, prompt));
    std::vector<std::int32_t> longer = prompt;
    longer.push_back(most_frequent(first));
    check_counts(second[longer.back()], distribution(harness, longer));
}
