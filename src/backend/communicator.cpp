#include "backend/communicator.h"

#include "base/error.h"

namespace kimi {

void Communicator::check() const {
    if (aborted_.load(std::memory_order_acquire)) fail(KIMI_DEVICE_LOST, "another rank failed");
}

// The last to come opens the next meeting and so ends this one.
void Communicator::meet(std::uint32_t meeting) {
    if (n_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_ranks()) {
        n_arrived_.store(0, std::memory_order_relaxed);
        meeting_.fetch_add(1, std::memory_order_acq_rel);
        meeting_.notify_all();
    } else {
        meeting_.wait(meeting, std::memory_order_acquire);
    }
    check();
}

void Communicator::abort() noexcept {
    aborted_.store(true, std::memory_order_release);
    meeting_.fetch_add(1, std::memory_order_acq_rel);
    meeting_.notify_all();
}

}  // namespace kimi
