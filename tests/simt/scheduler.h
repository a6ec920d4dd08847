// Runs the blocks of one or several launches on this OS thread, all making progress together.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/simt/block.h"

namespace kimi::simt::host {

struct Options {
    bool races = true;     // check the order of accesses to shared memory, and cp.async
    bool counters = true;  // count traffic; check read-only loads and overlapping writes
    // OS threads. With 2, blocks that wait for each other are refused, and the order of
    // floating-point atomics is open; all else stays repeatable.
    unsigned workers = 1;
    bool backward = false;  // opposite order of lanes, warps and blocks: results must not change
    bool alone = true;      // no other launch runs meanwhile, so that it is known what each does
    std::size_t stack_bytes = 64 * 1024;          // of one thread
    unsigned resident_blocks = 188;               // that can wait for each other: one per SM
    double hang_after_s = 100;                    // of virtual time without any change
    std::vector<const RawBuffer *> outputs = {};  // every byte has to be written when all is done
};

// Virtual time, as kernels see it. It moves when clocks are read and when all threads only poll.
class Clock {
  public:
    std::uint64_t now_ns() const { return ns_.load(std::memory_order_relaxed); }
    void advance(std::uint64_t ns) { ns_.fetch_add(ns, std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> ns_{1'000'000'000};
};

// One launch while it runs; shared by the OS threads that run its blocks.
struct LaunchRun {
    LaunchRun(Launch what, const Options &how) : launch(std::move(what)), options(how) {}

    const Launch launch;
    const Options options;
    Clock own_clock;
    Clock *clock = &own_clock;
    unsigned device = 0;   // whose memory it sees
    User *user = nullptr;  // of memory that streams share; null: alone
    std::atomic<std::uint64_t> next_block{0};

    std::mutex mutex;
    std::vector<Fault> faults;
    std::exception_ptr thrown;  // by a kernel, as a failing test does
    void add(Fault fault);
    void add_exception();  // the current one
    bool failed();
    // Why CUDA would refuse it, or "".
    std::string refusal() const;
};

class Scheduler {
  public:
    explicit Scheduler(Clock &clock) : clock_(clock) {}
    Scheduler(const Scheduler &) = delete;
    Scheduler &operator=(const Scheduler &) = delete;
    ~Scheduler();

    // Starts a launch, which must outlive its blocks. May be called between rounds.
    void add(LaunchRun &run);
    bool idle() const { return active_.empty(); }
    bool runs(const LaunchRun &run) const;
    // Lets every resident block run until it waits. Launches without blocks left to run leave, and
    // those that have failed. If all threads only poll, time passes, unless more launches may come
    // that they wait for.
    void round(bool more_may_come = false);
    // Grows with everything that can end somebody's polling.
    std::uint64_t progress() const { return progress_; }
    // What the blocks that this scheduler ran for the launch did. Once, after the launch.
    Tally take_tally(const LaunchRun &run);

  private:
    struct Active {
        LaunchRun *run;
        Tally *tally;
        std::vector<std::unique_ptr<Block>> resident;
    };
    void admit(Active &active, std::size_t resident);
    void run_resident(Active &active);
    bool run_launch(Active &active);
    void pass_time();
    void report_hang(const char *detail);
    static void abandon(Active &active);

    Clock &clock_;
    std::vector<Active> active_;
    std::unordered_map<const LaunchRun *, Tally> tallies_;
    std::uint64_t progress_ = 0, last_progress_ = 0;  // counts writes and exits
    std::uint64_t idle_rounds_ = 0, idle_ns_ = 0;
};

}  // namespace kimi::simt::host
