// Counts and times of a session's steps.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "backend/whole_step.h"

namespace kimi {

struct SessionStats {
    std::uint64_t steps = 0;      // decode steps, the one that ends a prompt not counted
    std::uint64_t committed = 0;  // tokens committed by them
    std::uint64_t drafted = 0, accepted = 0;  // tree nodes
    // By depth d at [d - 1]: steps whose tree had a node there, and steps that accepted one.
    std::array<std::uint64_t, kMaxTreeNodes> offered{}, accepted_at{};
    // Seconds; a pass that serves several sessions counts for each.
    double draft = 0, tree = 0, verify = 0, accept = 0, compact = 0;
    void add(const WholeStepTimes &times) {
        draft += times.draft;
        tree += times.tree;
        verify += times.verify;
        accept += times.accept;
        compact += times.compact;
    }

    std::uint64_t replies = 0, prompt_tokens = 0, prompt_reused = 0, reply_tokens = 0;
    double prefill = 0, decode = 0;     // of whole passes
    double first_token = 0, reply = 0;  // of the last reply, since its append
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
