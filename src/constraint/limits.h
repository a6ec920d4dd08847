// What compiling a constraint may cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kimi {

// Brackets and quotes that may be open at once.
inline constexpr std::uint32_t kMaxNesting = 64;

struct ConstraintLimits {
    std::size_t max_text = 1 << 20;    // bytes of the schema or expression
    std::size_t max_states = 1 << 16;  // of each automaton on the way, and of the result
    std::size_t max_steps = 1 << 25;   // elementary steps, some nanoseconds each
};

// Counts what was done, so that every input ends early, on any machine at the same place.
class WorkMeter {
  public:
    explicit WorkMeter(const ConstraintLimits &limits) : limits_(limits) {}

    const ConstraintLimits &limits() const { return limits_; }
    // Throws KIMI_TOO_LONG where an automaton has more states than allowed.
    void check_states(std::size_t n) const {
        if (n > limits_.max_states)
            fail(KIMI_TOO_LONG, "constraint too complex: more than ", limits_.max_states,
                 " states");
    }
    // Throws KIMI_TOO_LONG where this makes more than the allowed steps in total.
    void step(std::size_t n = 1) {
        steps_ += n;
        if (steps_ > limits_.max_steps)
            fail(KIMI_TOO_LONG, "constraint too complex: more than ", limits_.max_steps,
                 " steps to compile it");
    }

  private:
    ConstraintLimits limits_;
    std::size_t steps_ = 0;
};

}  // namespace kimi
