#include "engine/pass_arguments.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"

namespace kimi {
namespace {

constexpr std::size_t kAlignment = 16;
// A row in any of the calls: its columns of a plan, or its place in a list, and a sequence of its
// own.
constexpr std::size_t kRowBytes = 192;
constexpr std::size_t kLists = 16;

}  // namespace

PassArguments::PassArguments(std::uint32_t max_rows, std::uint64_t max_pages, const HostHeap &heap)
    : memory_(heap,
              max_rows * (kRowBytes + max_pages * sizeof(std::uint32_t) + kAlignment) +
                  kLists * kAlignment,
              "the ranks' arguments") {}

template <typename T>
std::span<T> PassArguments::copy(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    const std::size_t bytes = (values.size_bytes() + kAlignment - 1) / kAlignment * kAlignment;
    KIMI_CHECK(used_ + bytes <= memory_.bytes());
    T *const to = reinterpret_cast<T *>(memory_.data() + used_);
    used_ += bytes;
    std::uninitialized_copy(values.begin(), values.end(), to);
    return {to, values.size()};
}

void PassArguments::set(const StepPlan &plan) {
    used_ = 0;
    const std::span<PlanSequence> sequences = copy(plan.sequences);
    for (PlanSequence &sequence : sequences) sequence.pages = copy(sequence.pages);
    plan_ = {copy(plan.token), copy(plan.position), copy(plan.slot),     copy(plan.base),
             copy(plan.word),  sequences,           copy(plan.logit_row)};
}

void PassArguments::set(std::span<const DraftRequest> requests) {
    used_ = 0;
    const std::span<DraftRequest> own = copy(requests);
    for (DraftRequest &request : own) request.sequence.pages = copy(request.sequence.pages);
    requests_ = own;
}

void PassArguments::set(std::span<const DraftExtension> extensions) {
    used_ = 0;
    const std::span<DraftExtension> own = copy(extensions);
    for (DraftExtension &extension : own) {
        extension.rows = copy(extension.rows);
        extension.sequence.pages = copy(extension.sequence.pages);
    }
    extensions_ = own;
}

void PassArguments::set(const WholeStepArguments &step) {
    set(step.rows);
    const std::span<DraftRequest> requests = copy(step.requests);
    for (std::size_t i = 0; i < requests.size(); ++i)
        requests[i].sequence.pages = plan_.sequences[i].pages;
    requests_ = requests;
    sequences_ = copy(step.sequences);
}

}  // namespace kimi
