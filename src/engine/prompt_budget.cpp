#include "engine/prompt_budget.h"

#include <algorithm>
#include <bit>

namespace kimi {
namespace {

constexpr double kFade = 0.7;               // of an observation per newer one
constexpr std::uint32_t kFirstRows = 2;     // while a row's price is not known
constexpr std::uint32_t kMeasureEvery = 8;  // passes
// A pass may be interrupted: what is observed counts at most so many times what was expected, and
// no debt is larger than so many passes.
constexpr double kOutlier = 4;

}  // namespace

std::size_t PromptBudget::bucket(std::uint32_t n_decoding) {
    return std::min<std::size_t>(std::bit_width(n_decoding), 7);
}

std::uint32_t PromptBudget::rows(std::uint32_t n_decoding) const {
    const Alone &alone = alone_[bucket(n_decoding)];
    if (alone.seconds == 0 || alone.passes_since >= kMeasureEvery) return 0;
    if (row_seconds_ == 0) return kFirstRows;
    return static_cast<std::uint32_t>(std::clamp<double>(credit_ / row_seconds_, 0, most_));
}

void PromptBudget::observe(std::uint32_t n_decoding, std::uint32_t prompt_rows, double seconds) {
    Alone &alone = alone_[bucket(n_decoding)];
    if (prompt_rows == 0) {
        if (alone.seconds == 0) alone.seconds = seconds;
        alone.seconds =
            kFade * alone.seconds + (1 - kFade) * std::min(seconds, kOutlier * alone.seconds);
        alone.passes_since = 0;
        return pay(0, alone.seconds);
    }
    ++alone.passes_since;
    alone.seconds = std::min(alone.seconds, seconds);
    double extra = seconds - alone.seconds;
    if (row_seconds_ > 0)
        extra = std::min(extra, kOutlier * (prompt_rows * row_seconds_ + alone.seconds));
    most_ = 2 * prompt_rows + 1;
    rows_ = kFade * rows_ + prompt_rows;
    extra_ = kFade * extra_ + extra;
    row_seconds_ = std::max(extra_ / rows_, 1e-3 * alone.seconds);
    pay(extra, alone.seconds);
}

void PromptBudget::observe_delay(double seconds) {
    credit_ -= seconds;
}

// Unused credit is kept up to the price of a row.
void PromptBudget::pay(double seconds, double alone) {
    credit_ = std::clamp(credit_ + kShare * alone - seconds, -kOutlier * alone,
                         kShare * alone + row_seconds_);
}

}  // namespace kimi
