#include "engine/background_step.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/blocked_signals.h"
#include "base/error.h"

namespace kimi {

BackgroundStep::BackgroundStep(StepQueue &queue, Session &session)
    : queue_(queue), session_(&session) {
    caller_.sessions = {&session_, 1};
    caller_.origin.session = session_;
}

BackgroundStep::~BackgroundStep() {
    std::unique_lock lock(queue_.mutex_);
    if (submitted_ && !caller_.done) {
        if (caller_.n_joined == 0) {
            std::erase(queue_.callers_, &caller_);
            queue_.hand_on();  // who was to lead may have been this one
        } else {
            caller_.wake.wait(lock, [&] { return caller_.done; });
        }
    }
    if (caller_.event >= 0) close(caller_.event);
}

void BackgroundStep::submit() {
    const std::lock_guard lock(queue_.mutex_);
    if (!queue_.worker_.joinable()) {
        const BlockedSignals blocked;
        queue_.worker_ = std::thread([queue = &queue_] { queue->work(); });
    }
    queue_.callers_.push_back(&caller_);
    caller_.n_joined = 0;
    caller_.done = false;
    submitted_ = true;
    queue_.arrival_.notify_one();
    queue_.background_.notify_one();
}

bool BackgroundStep::collect() {
    const std::lock_guard lock(queue_.mutex_);
    if (!submitted_ || !caller_.done) return false;
    submitted_ = false;
    eventfd_t count = 0;
    if (caller_.event >= 0) eventfd_read(caller_.event, &count);
    return true;
}

int BackgroundStep::descriptor() {
    const std::lock_guard lock(queue_.mutex_);
    if (caller_.event >= 0) return caller_.event;
    const bool done = submitted_ && caller_.done;
    caller_.event = eventfd(done ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (caller_.event < 0)
        fail(KIMI_IO, "cannot make a descriptor: ", std::generic_category().message(errno));
    return caller_.event;
}

}  // namespace kimi
