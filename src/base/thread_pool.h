// A fixed team of threads for data-parallel loops.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace kimi {

// Cores that this process may use, at least 1.
unsigned available_cores();

class ThreadPool {
  public:
    // The calling thread takes part, so n_threads - 1 threads are started. Throws
    // std::system_error.
    explicit ThreadPool(unsigned n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool &) = delete;
    ThreadPool &operator=(const ThreadPool &) = delete;

    unsigned n_threads() const { return static_cast<unsigned>(threads_.size()) + 1; }

    // Calls task(i, thread) for every i in [0, n) and returns when all are done. Tasks are handed
    // out one at a time, in order; which thread takes which is open, so results must depend on i
    // alone. thread is below n_threads(), and 0 for the caller: an index of scratch memory. Tasks
    // do not throw. One caller at a time. Allocates nothing.
    template <typename Task>
    void run(std::size_t n, const Task &task) {
        if (threads_.empty() || n <= 1) {
            for (std::size_t i = 0; i < n; ++i) task(i, 0U);
            return;
        }
        run_erased(static_cast<std::uint32_t>(n), &task,
                   [](const void *t, std::size_t i, unsigned thread) noexcept {
                       (*static_cast<const Task *>(t))(i, thread);
                   });
    }

  private:
    using Call = void (*)(const void *task, std::size_t i, unsigned thread) noexcept;

    void run_erased(std::uint32_t n, const void *task, Call call);
    void work(unsigned thread);
    void take_tasks(unsigned thread);
    void stop();

    // The loop being run. A worker may read these fields while the next loop is set up; its ticket is
    // then no longer current, and it does not use them.
    std::atomic<const void *> task_{nullptr};
    std::atomic<Call> call_{nullptr};
    std::atomic<std::uint32_t> n_{0};
    // Loop number (upper half) and next task (lower half): taking a task is one compare-exchange.
    alignas(64) std::atomic<std::uint64_t> ticket_{0};
    alignas(64) std::atomic<std::uint32_t> n_done_{0};
    alignas(64) std::atomic<std::uint32_t> wake_{0};  // changes when there is work, or at the end
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

}  // namespace kimi
