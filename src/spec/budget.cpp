#include "spec/budget.h"

#include <algorithm>
#include <cmath>

namespace kimi {
namespace {

constexpr double kFade = 0.95;           // of an observation per newer one
constexpr std::uint32_t kMaxPause = 64;  // steps
constexpr std::uint32_t kUnknown = 8;    // nodes, where nothing is measured yet

}  // namespace

void PassCost::observe(double rows, double seconds) {
    for (double *sum : {&weight_, &rows_, &rows2_, &seconds_, &product_}) *sum *= kFade;
    weight_ += 1;
    rows_ += rows;
    rows2_ += rows * rows;
    seconds_ += seconds;
    product_ += rows * seconds;
}

double PassCost::estimate(double rows) const {
    if (weight_ == 0) return 0;
    const double mean_rows = rows_ / weight_, mean_seconds = seconds_ / weight_;
    const double variance = rows2_ / weight_ - mean_rows * mean_rows;
    const double covariance = product_ / weight_ - mean_rows * mean_seconds;
    // Without passes of different width nothing is known about a row's price: a tenth of one alone.
    const double slope =
        variance > 0.25 ? covariance / variance : 0.1 * mean_seconds / (0.9 + 0.1 * mean_rows);
    const double bounded = std::clamp(slope, 0.0, mean_seconds / std::max(mean_rows, 1.0));
    return mean_seconds + bounded * (rows - mean_rows);
}

bool BudgetPolicy::wants_draft() {
    if (paused_ == 0) return true;
    --paused_;
    return false;
}

void BudgetPolicy::remember(const DraftTree &last, std::uint32_t n_listed) {
    n_last_ = n_listed;
    std::copy_n(last.log_probability, n_listed, last_);
}

std::uint32_t BudgetPolicy::choose_ahead(const PassCost &pass, const DraftCost &draft,
                                         double other_rows) {
    if (n_last_ == 0) return kUnknown;
    const std::uint32_t n = choose({last_, n_last_}, pass, draft, other_rows);
    if (n == 0) n_last_ = 0;
    return n;
}

std::uint32_t BudgetPolicy::choose(std::span<const double> log_probability, const PassCost &pass,
                                   const DraftCost &draft, double other_rows) {
    const auto n_nodes = static_cast<std::uint32_t>(log_probability.size());
    if (!pass.known()) return std::min(n_nodes, kUnknown);
    const double trust = accepted_ / expected_;
    const double plain = 1 / pass.estimate(other_rows + 1);
    double value = 1, best_rate = 0;
    std::uint32_t best = 0;
    for (std::uint32_t n = 1; n <= n_nodes; ++n) {
        value += std::min(1.0, trust * std::exp(log_probability[n - 1]));
        const double rate = value / (draft.estimate() + pass.estimate(other_rows + 1 + n));
        if (rate > best_rate) best_rate = rate, best = n;
    }
    if (best_rate > plain) {
        pause_ = 0;
        return best;
    }
    pause_ = std::min(std::max(1U, 2 * pause_), kMaxPause);
    paused_ = pause_;
    return 0;
}

void BudgetPolicy::observe(const DraftTree &tree, std::uint32_t accepted) {
    double expected = 0;
    for (std::uint32_t i = 0; i < tree.n; ++i) expected += std::exp(tree.log_probability[i]);
    expected_ = kFade * expected_ + expected;
    accepted_ = kFade * accepted_ + accepted;
}

}  // namespace kimi
