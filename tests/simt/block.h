// A running thread block: its threads are fibers of one OS thread, and run one at a time until they
// have to wait.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simt/access.h"
#include "tests/simt/fault.h"
#include "tests/simt/fiber.h"
#include "tests/simt/launch.h"
#include "tests/simt/order.h"
#include "tests/simt/shadow.h"
#include "tests/simt/tally.h"
#include "tests/simt/tensor.h"

namespace kimi::simt::host {

inline constexpr std::size_t kMaxSharedBytes = 101376;  // per block on sm_120
inline constexpr unsigned kBarriers = 16;

enum class Wait : std::uint8_t { kNothing, kWarp, kBarrier, kMbarrier, kPoll, kLog, kExited };

// cp.async groups of a thread are numbered from 1.
struct AsyncGroups {
    static constexpr std::uint32_t kRemembered = 64;
    std::uint32_t open = 1;                    // takes new copies
    std::uint32_t complete = 0;                // waited for, with all before
    std::array<Stamp, kRemembered> waited_at;  // of complete ones
};

struct Thread : Context {
    Thread() {}  // leaves async.waited_at as it is: clearing it for every thread takes time

    Block *block = nullptr;
    Warp *warp = nullptr;
    unsigned index = 0, lane = 0;  // in the block, in the warp
    Dim3 position;                 // threadIdx

    Access *log = nullptr;
    std::uint32_t n_logged = 0;

    Stamp stamp = 0;
    const Knowledge *known = nullptr;
    AsyncGroups async;

    // Spinning: the last polled value, and polls since the thread last yielded.
    std::uint64_t polled_address = 0, polled_value = 0;
    unsigned n_polls = 0;

    // Why and where it waits, for messages.
    Wait wait = Wait::kNothing;
    Site wait_site;
    const char *wait_for = "";
    std::uint32_t wait_lanes = 0;   // named by the warp operation
    std::uint32_t wait_number = 0;  // barrier, or offset of the mbarrier
};

// The lanes of a warp that take part in a collective operation. `operands` are the lanes' own.
struct Lanes {
    Warp *warp;
    std::uint32_t mask;
    void *const *operands;

    bool has(unsigned lane) const { return mask >> lane & 1U; }
    template <typename Operands>
    Operands &of(unsigned lane) const {
        return *static_cast<Operands *>(operands[lane]);
    }
};
using Collective = void (*)(const Lanes &);

struct Rendezvous {
    std::uint32_t mask = 0, arrived = 0;
    Collective operation = nullptr;
    Site site;
};

struct Warp {
    Block *block = nullptr;
    unsigned index = 0;
    Thread *threads = nullptr;  // its lanes
    std::uint32_t exists = 0, exited = 0;
    std::uint32_t runnable = 0, polling = 0, log_full = 0;
    bool has_log = false;
    Stamp synced = 0;  // its lanes know each other's accesses up to here

    std::uint32_t meeting = 0;  // lanes named by operations that are not complete
    std::array<Rendezvous, kWarpSize> rendezvous;  // by lowest lane of the mask
    std::array<void *, kWarpSize> operands;
    std::unique_ptr<TensorQueue> tensor;
};

struct Barrier {
    unsigned expected = 0, arrived = 0, n_waiting = 0;
    std::array<std::uint32_t, kMaxWarps> lanes{};    // that arrived
    std::array<std::uint32_t, kMaxWarps> waiting{};  // of those, the ones that wait
    Site site;
    Knowledge channel;
};

struct Mbarrier {
    std::uint32_t offset = 0, arrivals = 0, pending = 0, phase = 0;
    std::int64_t bytes = 0;  // expected and not copied yet
    unsigned init_thread = 0;
    Stamp init_stamp = 0;
    Knowledge channel;
    const Knowledge *last_phase = nullptr;
    std::vector<Thread *> waiting;
};

// The thread that runs on this OS thread; null outside kernels. In a shared library, the default
// model calls a function for every look at it.
[[gnu::tls_model("initial-exec")]] constinit inline thread_local Thread *running_thread = nullptr;
[[noreturn]] void fail_outside_kernel();
// The same, for code that only kernels call. Throws kimi::Error outside.
inline Thread &current_thread() {
    if (running_thread == nullptr) [[unlikely]]
        fail_outside_kernel();
    return *running_thread;
}

struct LaunchRun;

class Block {
  public:
    explicit Block(std::size_t stack_bytes);

    // Gets ready to run block `number` of a launch. `progress` grows with every change that can end
    // somebody's polling.
    void start(LaunchRun &run, std::uint64_t number, Tally &tally, std::uint64_t &progress);
    // Runs until every thread has exited or waits.
    void resume();

    bool finished() const { return failed_ || n_live_ == 0; }
    bool is_polling() const;
    // Lets threads that poll look again.
    void wake_pollers();
    // Reports why nothing can go on, and gives up.
    void report_stuck();
    void report_hang(const char *detail);

    std::size_t stack_bytes() const { return stack_bytes_; }
    LaunchRun &run() const { return *run_; }
    const Launch &launch() const { return *launch_; }
    Dim3 index() const { return index_; }
    std::uint64_t number() const { return number_; }
    unsigned n_threads() const { return n_threads_; }
    unsigned n_warps() const { return (n_threads_ + kWarpSize - 1) / kWarpSize; }
    Thread &thread(unsigned i) { return threads_[i]; }
    Warp &warp(unsigned i) { return warps_[i]; }
    Tally &tally() { return *tally_; }
    Order &order() { return order_; }
    Shadow &shadow() { return shadow_; }
    std::vector<Mbarrier> &mbarriers() { return mbarriers_; }
    std::array<Barrier, kBarriers> &barriers() { return barriers_; }
    bool checks_races() const { return checks_races_; }
    bool counts() const { return counts_; }

    // ---- called by the running thread

    // Returns when all lanes of the mask have called; the last one runs `operation` for all.
    void collective(std::uint32_t mask, Collective operation, void *operands, const char *name,
                    Site site);
    void barrier(unsigned id, unsigned threads, bool waits, Site site);
    // Waits until somebody makes the thread runnable.
    void park(Wait why, const char *what, Site site);
    static void make_runnable(Thread &thread) { thread.warp->runnable |= 1U << thread.lane; }
    // Lets others run if this thread seems to spin. Returns whether it did.
    bool poll(std::uint64_t address, std::uint64_t value, Site site);
    void log(Thread &thread, Site site, const Memory *memory, std::uint64_t where);
    // Before an access: makes room in the log.
    void make_room(Thread &thread, Site site) {
        if (thread.n_logged == kLogEntries) park_full_log(thread, site);
    }
    void made_progress() { ++*progress_; }

    std::byte *shared_memory() { return shared_.get(); }
    std::uint32_t shared_bytes() const { return shared_bytes_; }  // with static arrays, so far
    SharedPlace dynamic_shared(std::uint32_t offset, std::uint64_t bytes, Site site);
    // The static array with this key; all threads ask for the same ones.
    SharedPlace static_shared(const void *key, std::uint64_t bytes, Site site);

    // Records a fault of the thread and abandons the block.
    [[noreturn]] void fault(const Thread &thread, FaultKind kind, Site site, std::string detail,
                            const std::string &buffer = {}, std::uint64_t offset = 0);
    [[noreturn]] void fault(FaultKind kind, Site site, std::string detail) {
        fault(*running_thread, kind, site, std::move(detail));
    }

  private:
    static constexpr std::uint32_t kLogEntries = 32;
    static void thread_main(boost::context::detail::transfer_t from);

    void prepare_threads();
    Thread *next_in(Warp &warp);
    Thread *next(Warp &from);
    unsigned pick(std::uint32_t mask) const {
        return backward_ ? 31U - static_cast<unsigned>(std::countl_zero(mask))
                         : static_cast<unsigned>(std::countr_zero(mask));
    }
    void park_full_log(Thread &thread, Site site);
    void flush(Warp &warp);
    void flush_all();
    void exit_thread(Thread &thread);
    [[noreturn]] void fault_in_collective(const Rendezvous &r, std::uint32_t mask, const char *name,
                                          Site site);
    void open_rendezvous(Thread &thread, Rendezvous &r, std::uint32_t mask, Collective operation,
                         const char *name, Site site);
    void complete(Barrier &barrier, unsigned id, Site site);
    void record(FaultKind kind, const Thread &thread, Site site, std::string detail,
                const std::string &buffer = {}, std::uint64_t offset = 0);
    void report_lost_warp(const Thread &thread);
    bool misses_lanes(const Thread &thread) const;
    std::string describe(const Thread &thread) const;
    std::string describe_waiting() const;

    LaunchRun *run_ = nullptr;
    const Launch *launch_ = nullptr;
    Tally *tally_ = nullptr;
    std::uint64_t *progress_ = nullptr;
    std::uint64_t number_ = 0;
    Dim3 index_;
    unsigned n_threads_ = 0, n_live_ = 0;
    bool failed_ = false, backward_ = false, checks_races_ = true, counts_ = true;
    Context scheduler_;

    std::size_t stack_bytes_;
    std::unique_ptr<Stacks> stacks_;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<Access> logs_;

    struct FreeAligned {
        void operator()(std::byte *p) const;
    };
    std::unique_ptr<std::byte[], FreeAligned> shared_;
    std::uint32_t dynamic_bytes_ = 0, shared_bytes_ = 0;
    struct StaticArray {
        const void *key;
        SharedPlace place;
    };
    std::vector<StaticArray> static_arrays_;

    std::array<Barrier, kBarriers> barriers_;
    std::vector<Mbarrier> mbarriers_;
    Order order_;
    Shadow shadow_;
};

inline void wait_for_tensor_operations(Thread &thread) {
    const TensorQueue &q = *thread.warp->tensor;
    if (q.queued[thread.lane] > q.executed) settle(thread);
}

// Inline, because after a switch of stacks the processor predicts no return: every frame less
// counts.
inline void Block::park(Wait why, const char *what, Site site) {
    Thread &thread = *running_thread;
    Warp &warp = *thread.warp;
    thread.wait = why;
    thread.wait_for = what;
    thread.wait_site = site;
    warp.runnable &= ~(1U << thread.lane);
    Thread *to = warp.runnable != 0 ? &warp.threads[pick(warp.runnable)] : next(warp);
    if (to == &thread) {
        thread.wait = Wait::kNothing;
        return;
    }
    running_thread = to;
    switch_context(thread, to != nullptr ? static_cast<Context &>(*to) : scheduler_);
    thread.wait = Wait::kNothing;
}

inline void Block::collective(std::uint32_t mask, Collective operation, void *operands,
                              const char *name, Site site) {
    Thread &thread = *running_thread;
    Warp &warp = *thread.warp;
    const bool named = (mask >> thread.lane & 1U) != 0;
    Rendezvous &r = warp.rendezvous[named ? static_cast<unsigned>(std::countr_zero(mask)) : 0];
    if (named && r.arrived == 0) {
        open_rendezvous(thread, r, mask, operation, name, site);
    } else if (!named || r.mask != mask || r.operation != operation || !(r.site == site)) {
        fault_in_collective(r, mask, name, site);
    }
    r.arrived |= 1U << thread.lane;
    warp.operands[thread.lane] = operands;
    if (r.arrived != mask) {
        thread.wait_lanes = mask;
        park(Wait::kWarp, name, site);
        return;
    }
    r.arrived = 0;
    warp.meeting &= ~mask;
    if (mask == warp.exists && warp.has_log) flush(warp);
    operation({&warp, mask, warp.operands.data()});
    warp.runnable |= mask;
}

}  // namespace kimi::simt::host
