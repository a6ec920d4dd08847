// What the ranks are asked to compute, in memory of their own: a rank that is stuck may read it
// when the caller has gone on.
#pragma once

#include <cstdint>
#include <span>

#include "backend/step_plan.h"
#include "backend/whole_step.h"
#include "base/host_memory.h"
#include "model/drafter.h"

namespace kimi {

// A step that the device does by itself. requests: of each sequence, or none.
struct WholeStepArguments {
    std::span<const DraftRequest> requests;
    StepPlan rows;
    std::span<const WholeStepSequence> sequences;
};

class PassArguments {
  public:
    PassArguments() = default;
    // For passes of max_rows rows, over sequences of at most max_pages pages.
    PassArguments(std::uint32_t max_rows, std::uint64_t max_pages, const HostHeap &heap);

    // Copies what they refer to. The copies of an earlier call are gone.
    void set(const StepPlan &plan);
    void set(std::span<const DraftRequest> requests);
    void set(std::span<const DraftExtension> extensions);
    void set(const WholeStepArguments &step);

    const StepPlan &plan() const { return plan_; }
    std::span<const DraftRequest> requests() const { return requests_; }
    std::span<const DraftExtension> extensions() const { return extensions_; }
    WholeStepArguments whole_step() const { return {requests_, plan_, sequences_}; }

  private:
    template <typename T>
    std::span<T> copy(std::span<const T> values);

    HostMemory memory_;
    std::size_t used_ = 0;
    StepPlan plan_;
    std::span<const DraftRequest> requests_;
    std::span<const DraftExtension> extensions_;
    std::span<const WholeStepSequence> sequences_;
};

}  // namespace kimi
