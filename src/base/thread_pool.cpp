#include "base/thread_pool.h"

#include <immintrin.h>
#include <sched.h>

#include "base/blocked_signals.h"

namespace kimi {

unsigned available_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

namespace {

// How long an idle worker looks for work before it sleeps: longer than the serial parts between the
// loops of a decode step, short enough not to burn a core between steps.
constexpr int kSpins = 4000;
// A task number that no loop reaches.
constexpr std::uint64_t kNoTask = UINT32_MAX;

}  // namespace

ThreadPool::ThreadPool(unsigned n_threads) {
    const BlockedSignals blocked;
    try {
        for (unsigned i = 1; i < n_threads; ++i) threads_.emplace_back([this, i] { work(i); });
    } catch (...) {
        stop();
        throw;
    }
}

ThreadPool::~ThreadPool() {
    stop();
}

void ThreadPool::stop() {
    stop_.store(true);
    wake_.fetch_add(1);
    wake_.notify_all();
    for (std::thread &thread : threads_) thread.join();
}

void ThreadPool::run_erased(std::uint32_t n, const void *task, Call call) {
    // First no ticket is valid: a worker that is still looking for tasks of the last loop, and sees
    // the new n, must not take one before everything is set.
    const std::uint64_t loop = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
    ticket_.store(loop << 32 | kNoTask, std::memory_order_relaxed);
    task_.store(task, std::memory_order_release);
    call_.store(call, std::memory_order_release);
    n_.store(n, std::memory_order_release);
    n_done_.store(0, std::memory_order_relaxed);
    ticket_.store(loop << 32, std::memory_order_release);
    wake_.fetch_add(1, std::memory_order_release);
    wake_.notify_all();
    take_tasks(0);
    for (int spin = 0; n_done_.load(std::memory_order_acquire) < n; ++spin) {
        if (spin < kSpins) {
            _mm_pause();
        } else {
            sched_yield();
        }
    }
}

void ThreadPool::take_tasks(unsigned thread) {
    for (;;) {
        std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
        const void *task = task_.load(std::memory_order_acquire);
        const Call call = call_.load(std::memory_order_acquire);
        const auto i = static_cast<std::uint32_t>(ticket);
        if (i >= n_.load(std::memory_order_acquire)) return;
        if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
        call(task, i, thread);
        n_done_.fetch_add(1, std::memory_order_release);
    }
}

void ThreadPool::work(unsigned thread) {
    std::uint32_t seen = 0;
    while (!stop_.load()) {
        for (int spin = 0; spin < kSpins && wake_.load(std::memory_order_acquire) == seen; ++spin)
            _mm_pause();
        wake_.wait(seen, std::memory_order_acquire);
        seen = wake_.load(std::memory_order_acquire);
        take_tasks(thread);
    }
}

}  // namespace kimi
