// Counts and times of a session's decode steps.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "backend/step_plan.h"

namespace kimi {

struct SessionStats {
    std::uint64_t steps = 0;      // decode steps, the one that ends a prompt not counted
    std::uint64_t committed = 0;  // tokens committed by them
    std::uint64_t drafted = 0, accepted = 0;  // tree nodes
    // By depth d at [d - 1]: steps whose tree had a node there, and steps that accepted one.
    std::array<std::uint64_t, kMaxTreeNodes> offered{}, accepted_at{};
    // Seconds; a pass that serves several sessions counts for each.
    double draft = 0, tree = 0, verify = 0, accept = 0, compact = 0;
};

// Adds the seconds of its scope to a sum.
class ScopedTimer {
  public:
    explicit ScopedTimer(double &sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
    ScopedTimer(const ScopedTimer &) = delete;
    ScopedTimer &operator=(const ScopedTimer &) = delete;
    ~ScopedTimer() {
        sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

  private:
    double &sum_;
    std::chrono::steady_clock::time_point start_;
};

}  // namespace kimi
