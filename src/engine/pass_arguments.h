// What the ranks are asked to compute, in memory of their own: a rank that is stuck may read it
// when the caller has gone on.
#pragma once

#include <cstdint>
#include <span>

#include "backend/step_plan.h"
#include "base/host_memory.h"
#include "model/drafter.h"

namespace kimi {

class PassArguments {
  public:
    PassArguments() = default;
    // For passes of max_rows rows, over sequences of at most max_pages pages.
    PassArguments(std::uint32_t max_rows, std::uint64_t max_pages, const HostHeap &heap);

    // Copies what they refer to. The copies of an earlier call are gone.
    void set(const StepPlan &plan);
    void set(std::span<const DraftRequest> requests);
    void set(std::span<const DraftExtension> extensions);

    const StepPlan &plan() const { return plan_; }
    std::span<const DraftRequest> requests() const { return requests_; }
    std::span<const DraftExtension> extensions() const { return extensions_; }

  private:
    template <typename T>
    std::span<T> copy(std::span<const T> values);

    HostMemory memory_;
    std::size_t used_ = 0;
    StepPlan plan_;
    std::span<const DraftRequest> requests_;
    std::span<const DraftExtension> extensions_;
};

}  // namespace kimi
