// Where the ranks of one process meet.
//
// All ranks make the same calls in the same order, each from its own thread. Waiting sleeps: there
// may be more ranks than cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kimi {

inline constexpr std::uint32_t kMaxRanks = 64;

class Communicator {
  public:
    explicit Communicator(std::uint32_t n_ranks)
        : shown_{std::vector<void *>(n_ranks), std::vector<void *>(n_ranks)} {}
    Communicator(const Communicator &) = delete;

    std::uint32_t n_ranks() const { return static_cast<std::uint32_t>(shown_[0].size()); }

    // Once all ranks have come, calls read with what each shows, in their order. Others may read
    // what a rank shows until its next exchange is over: they meet once, not a second time to
    // leave. Throws KIMI_DEVICE_LOST when aborted.
    template <typename Read>
    void exchange(std::uint32_t rank, void *mine, const Read &read) {
        if (hook_) hook_(rank);
        const std::uint32_t meeting = meeting_.load(std::memory_order_acquire);
        check();
        // Those who still read do so from the meeting before this one.
        std::vector<void *> &shown = shown_[meeting % 2];
        shown[rank] = mine;
        meet(meeting);
        read(std::span<void *const>(shown));
    }

    // Ends all exchanges, those that wait and those to come. Any thread.
    void abort() noexcept;
    bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }

    // Grows as long as the ranks get on. Any thread.
    std::uint32_t n_meetings() const { return meeting_.load(std::memory_order_relaxed); }

    // Called at the begin of every exchange with the rank: tests make ranks fail there. Set it
    // while no exchange is going on.
    void on_exchange(std::function<void(std::uint32_t rank)> hook) { hook_ = std::move(hook); }

  private:
    void check() const;
    void meet(std::uint32_t meeting);

    std::vector<void *> shown_[2];  // [ranks], by turns
    std::atomic<std::uint32_t> n_arrived_{0};
    std::atomic<std::uint32_t> meeting_{0};
    std::atomic<bool> aborted_{false};
    std::function<void(std::uint32_t)> hook_;
};

}  // namespace kimi
