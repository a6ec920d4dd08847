#include "placement/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>

#include "backend/step_plan.h"

namespace kimi {
namespace {

// Simulated passes, over all layers: the standard error of a ratio stays below 1 %. Beyond the
// width of a tree ratios hardly vary, so that few passes go on.
constexpr std::size_t kPasses = 2000, kLongPasses = 60, kShortTokens = kMaxTreeNodes + 1;

// Draws from 0 .. n - 1 in proportion to weights. (std::discrete_distribution differs between
// standard libraries.)
class Wheel {
  public:
    explicit Wheel(const std::vector<double> &weights) : sums_(weights.size()) {
        std::partial_sum(weights.begin(), weights.end(), sums_.begin());
    }
    std::uint32_t draw(std::mt19937_64 &random) const {
        const double at = std::ldexp(static_cast<double>(random() >> 11), -53) * sums_.back();
        return static_cast<std::uint32_t>(std::upper_bound(sums_.begin(), sums_.end(), at) -
                                          sums_.begin());
    }
    std::size_t size() const { return sums_.size(); }
    // n different ones.
    void draw(std::mt19937_64 &random, std::uint32_t n, std::vector<std::uint32_t> &out) const {
        out.clear();
        while (out.size() < n) {
            const std::uint32_t pick = draw(random);
            if (std::find(out.begin(), out.end(), pick) == out.end()) out.push_back(pick);
        }
    }

  private:
    std::vector<double> sums_;
};

double total(const std::vector<std::uint32_t> &values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

double largest(const std::vector<std::uint32_t> &values) {
    return *std::max_element(values.begin(), values.end());
}

// What the passes of one number of tokens add up to.
struct Sums {
    double pairs = 0, distinct = 0, busiest_pairs = 0, busiest_distinct = 0;
};

// One pass through one layer, a token after another: adds to the sums of every number of tokens.
void simulate_pass(const ExpertMap &map, std::uint32_t layer, const Wheel &wheel,
                   std::uint32_t top_k, std::uint64_t position, std::mt19937_64 &random,
                   std::span<Sums> sums) {
    const std::uint32_t n_groups = map.n_groups();
    std::vector<bool> seen(wheel.size() * n_groups);
    std::vector<std::uint32_t> distinct(n_groups), pairs(n_groups), picks;
    for (Sums &sum : sums) {
        wheel.draw(random, top_k, picks);
        for (const std::uint32_t e : picks) {
            const std::uint32_t g = map.group_for(layer, e, position);
            ++pairs[g];
            distinct[g] += !seen[std::size_t{e} * n_groups + g];
            seen[std::size_t{e} * n_groups + g] = true;
        }
        sum.pairs += total(pairs);
        sum.distinct += total(distinct);
        sum.busiest_pairs += largest(pairs);
        sum.busiest_distinct += largest(distinct);
        ++position;
    }
}

std::vector<GroupLoad> simulate(const ExpertMap &map, const ExpertCounts &counts,
                                std::uint32_t top_k, std::uint32_t max_tokens) {
    std::vector<Sums> sums(max_tokens);
    const std::span all(sums), few = all.first(std::min<std::size_t>(max_tokens, kShortTokens));
    std::mt19937_64 random(1);
    for (std::uint32_t layer = 0; layer < counts.size(); ++layer) {
        const Wheel wheel(counts[layer]);
        for (std::size_t pass = 0; pass * counts.size() < kPasses; ++pass)
            simulate_pass(map, layer, wheel, top_k, pass, random,
                          pass * counts.size() < kLongPasses ? all : few);
    }
    std::vector<GroupLoad> out;
    for (const Sums &sum : sums)
        out.push_back({sum.busiest_distinct * map.n_groups() / sum.distinct,
                       sum.busiest_pairs * map.n_groups() / sum.pairs});
    return out;
}

}  // namespace

Routing::Routing(const TargetDims &dims, const ExpertMap &map, std::uint32_t max_tokens)
    : Routing(dims, map, max_tokens, {std::vector<double>(dims.n_experts, 1)}) {}

Routing::Routing(const TargetDims &dims, const ExpertMap &map, std::uint32_t max_tokens,
                 ExpertCounts counts)
    : n_experts_(dims.n_experts),
      top_k_(dims.top_k),
      counts_(std::move(counts)),
      loads_(map.n_groups() > 1 && dims.n_moe_layers() > 0
                 ? simulate(map, counts_, top_k_, max_tokens)
                 : std::vector<GroupLoad>(max_tokens)) {}

double Routing::distinct_experts(double n_tokens) const {
    double sum = 0;
    for (const std::vector<double> &layer : counts_) {
        const double picks = std::accumulate(layer.begin(), layer.end(), 0.0);
        for (const double count : layer)
            sum += 1 - std::pow(std::max(0.0, 1 - top_k_ * count / picks), n_tokens);
    }
    return sum / static_cast<double>(counts_.size());
}

}  // namespace kimi
