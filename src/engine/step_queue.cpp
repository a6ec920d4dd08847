#include "engine/step_queue.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "engine/session.h"

namespace kimi {
namespace {

// Sessions that are offered to one pass.
constexpr std::size_t kMaxJoined = 1024;
// The parts of a pass that its callers have to come back in time for the next one, and for one of
// prompts alone.
constexpr int kPatience = 32, kPatienceOfPrompts = 2;

}  // namespace

StepQueue::StepQueue(Pass pass) : pass_(std::move(pass)) {
    callers_.reserve(kMaxJoined);
    joined_.reserve(kMaxJoined);
}

StepQueue::~StepQueue() {
    if (!worker_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        background_.notify_one();
    }
    worker_.join();
}

void StepQueue::step(std::span<Session *const> sessions) {
    Caller caller{sessions, {std::this_thread::get_id()}};
    std::unique_lock lock(mutex_);
    callers_.push_back(&caller);
    arrival_.notify_one();
    while (!caller.done) {
        if (leading_)
            caller.wake.wait(lock);
        else
            lead(lock);
    }
    hand_on();
}

// The thread of the steps in the background.
void StepQueue::work() {
    const auto wanted = [this] {
        return stop_ || (!leading_ && std::any_of(callers_.begin(), callers_.end(),
                                                  [](auto *c) { return c->in_background(); }));
    };
    for (std::unique_lock lock(mutex_);; hand_on()) {
        background_.wait(lock, wanted);
        if (stop_) return;
        lead(lock);
    }
}

// Where nobody leads, the first who waits is the next to do so.
void StepQueue::hand_on() {
    if (leading_ || callers_.empty()) return;
    Caller &next = *callers_.front();
    (next.in_background() ? background_ : next.wake).notify_one();
}

// One pass, unless all callers were in the background and gave up meanwhile.
void StepQueue::lead(std::unique_lock<std::mutex> &lock) {
    leading_ = true;
    await_callers(lock);
    if (callers_.empty()) {
        leading_ = false;
        return;
    }
    join_callers();
    const bool concurrent = callers_.size() > 1 || callers_.front()->origin != decoding_origin_;
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    pass_(joined_, concurrent);
    end_ = std::chrono::steady_clock::now();
    duration_ = end_ - start;
    lock.lock();
    release_callers();
    leading_ = false;
}

void StepQueue::await_callers(std::unique_lock<std::mutex> &lock) {
    if (decoding_ && callers_.front()->origin != decoding_origin_)
        arrival_.wait_until(lock, end_ + duration_ / kPatienceOfPrompts,
                            [&] { return anyone_decodes(); });
    arrival_.wait_until(lock, end_ + duration_ / kPatience,
                        [&] { return callers_.size() >= n_returning_; });
}

bool StepQueue::anyone_decodes() const {
    return std::any_of(callers_.begin(), callers_.end(), [](const Caller *caller) {
        return std::any_of(caller->sessions.begin(), caller->sessions.end(),
                           [](const Session *s) { return s->result().phase == KIMI_PHASE_DECODE; });
    });
}

void StepQueue::join_callers() {
    for (Caller *caller : callers_)
        while (caller->n_joined < caller->sessions.size() && joined_.size() < kMaxJoined)
            joined_.push_back(caller->sessions[caller->n_joined++]);
}

void StepQueue::release_callers() {
    n_returning_ = 0;
    decoding_ = false;
    std::erase_if(callers_, [&](Caller *caller) {
        if (!had_their_step(*caller)) return false;
        std::uint32_t next = KIMI_PHASE_FINISHED;
        for (const Session *session : caller->sessions)
            if (session->result().phase != KIMI_PHASE_FINISHED) next = session->result().phase;
        n_returning_ += next != KIMI_PHASE_FINISHED;
        if (next == KIMI_PHASE_DECODE) decoding_ = true, decoding_origin_ = caller->origin;
        caller->done = true;
        if (caller->event >= 0) eventfd_write(caller->event, 1);
        caller->wake.notify_one();
        return true;
    });
}

bool StepQueue::had_their_step(const Caller &caller) const {
    return caller.n_joined == caller.sessions.size() &&
           std::none_of(caller.sessions.begin(), caller.sessions.end(), [&](Session *session) {
               return std::find(joined_.begin(), joined_.end(), session) != joined_.end();
           });
}

}  // namespace kimi
