#include "tests/simt/scheduler.h"

#include <algorithm>

#include "base/error.h"
#include "tests/simt/atomics.h"

namespace kimi::simt::host {
namespace {

constexpr std::size_t kMaxFaults = 16;
// With several OS threads, what is waited for may be under way on another one.
constexpr std::uint64_t kIdleRoundsOfWorker = 50;

// Blocks keep their stacks from launch to launch.
class BlockPool {
  public:
    std::unique_ptr<Block> take(std::size_t stack_bytes) {
        const std::lock_guard lock(mutex_);
        for (auto &b : free_) {
            if (b->stack_bytes() != stack_bytes) continue;
            std::swap(b, free_.back());
            auto block = std::move(free_.back());
            free_.pop_back();
            return block;
        }
        return std::make_unique<Block>(stack_bytes);
    }
    void give(std::unique_ptr<Block> block) {
        constexpr std::size_t kKeep = 64;
        const std::lock_guard lock(mutex_);
        if (free_.size() < kKeep) free_.push_back(std::move(block));
    }

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Block>> free_;
};
BlockPool &pool() {
    static auto *const instance = new BlockPool;  // for schedulers that end at exit
    return *instance;
}

}  // namespace

std::uint64_t read_clock(Site site) {
    constexpr std::uint64_t kReadNs = 20;
    Block &block = *current_thread().block;
    Clock &clock = *block.run().clock;
    clock.advance(kReadNs);
    block.poll(0, clock.now_ns(), site);
    return clock.now_ns();
}

// ---- launches

void LaunchRun::add(Fault fault) {
    const std::lock_guard lock(mutex);
    faults.push_back(std::move(fault));
    std::sort(faults.begin(), faults.end(),
              [](const Fault &a, const Fault &b) { return a.block_number < b.block_number; });
    if (faults.size() > kMaxFaults) faults.pop_back();
}

void LaunchRun::add_exception() {
    const std::lock_guard lock(mutex);
    thrown = std::current_exception();
}

bool LaunchRun::failed() {
    const std::lock_guard lock(mutex);
    return !faults.empty() || thrown;
}

std::string LaunchRun::refusal() const {
    constexpr unsigned kMaxGridY = 65535;
    const Dim3 &g = launch.grid, &b = launch.block;
    if (g.x == 0 || g.y == 0 || g.z == 0 || b.x == 0 || b.y == 0 || b.z == 0) return "empty launch";
    if (g.x > 0x7fffffffU || g.y > kMaxGridY || g.z > kMaxGridY) return "grid too large";
    if (std::uint64_t{b.x} * b.y * b.z > kMaxThreads || b.z > 64) return "block too large";
    if (launch.shared_bytes > kMaxSharedBytes) {
        return cat(launch.shared_bytes, " bytes of shared memory, ", kMaxSharedBytes, " exist");
    }
    if (launch.cooperative && launch.n_blocks() > options.resident_blocks) {
        return cat("cooperative launch of ", launch.n_blocks(), " blocks, ",
                   options.resident_blocks, " fit");
    }
    return "";
}

// ---- rounds

Scheduler::~Scheduler() {
    for (Active &a : active_) abandon(a);
}

void Scheduler::add(LaunchRun &run) {
    active_.push_back({&run, &tallies_[&run], {}});
    if (run.clock != &clock_) run.clock = &clock_;
}

// Takes new blocks until so many are resident.
void Scheduler::admit(Active &active, std::size_t resident) {
    LaunchRun &run = *active.run;
    const std::uint64_t n = run.launch.n_blocks();
    while (active.resident.size() < resident && !run.failed()) {
        const std::uint64_t next = run.next_block.fetch_add(1);
        if (next >= n) return;
        active.resident.push_back(pool().take(run.options.stack_bytes));
        active.resident.back()->start(run, run.options.backward ? n - 1 - next : next,
                                      *active.tally, progress_);
    }
}

void Scheduler::run_resident(Active &active) {
    for (auto &block : active.resident) {
        block->wake_pollers();
        block->resume();
        if (!block->finished() && !block->is_polling()) block->report_stuck();
    }
    const auto ended = std::stable_partition(active.resident.begin(), active.resident.end(),
                                             [](const auto &b) { return !b->finished(); });
    for (auto b = ended; b != active.resident.end(); ++b) pool().give(std::move(*b));
    active.resident.erase(ended, active.resident.end());
}

bool Scheduler::runs(const LaunchRun &run) const {
    return std::any_of(active_.begin(), active_.end(),
                       [&run](const Active &a) { return a.run == &run; });
}

Tally Scheduler::take_tally(const LaunchRun &run) {
    return std::move(tallies_.extract(&run).mapped());
}

// Returns whether blocks are left.
bool Scheduler::run_launch(Active &active) {
    LaunchRun &run = *active.run;
    const std::size_t most = run.options.resident_blocks;
    // One after the other, until one polls; then one more each round. If cooperative, all together.
    do {
        admit(active, run.launch.cooperative ? most : std::min(most, active.resident.size() + 1));
        if (active.resident.empty()) return false;
        run_resident(active);
    } while (active.resident.empty());
    return true;
}

void Scheduler::round(bool more_may_come) {
    std::erase_if(active_, [this](Active &a) { return !run_launch(a); });
    if (active_.empty()) return;
    if (!more_may_come) pass_time();
    // Blocks that wait for one that has failed do so for ever.
    std::erase_if(active_, [](Active &a) {
        if (!a.run->failed()) return false;
        abandon(a);
        return true;
    });
}

// All threads poll. Time goes faster and faster while nothing changes.
void Scheduler::pass_time() {
    constexpr std::uint64_t kRoundNs = 1000;
    constexpr std::uint64_t kMaxDoublings = 20;
    if (progress_ != last_progress_) {
        last_progress_ = progress_;
        idle_rounds_ = idle_ns_ = 0;
        clock_.advance(kRoundNs);
        return;
    }
    const std::uint64_t step = kRoundNs << std::min(idle_rounds_++, kMaxDoublings);
    idle_ns_ += step;
    clock_.advance(step);
    const Options &options = active_.front().run->options;
    if (options.workers > 1 && idle_rounds_ > kIdleRoundsOfWorker) {
        report_hang("waits for another block: launch it cooperative, or test with workers = 1");
    } else if (static_cast<double>(idle_ns_) * 1e-9 > options.hang_after_s) {
        report_hang("every thread polls and nothing changes");
    }
}

void Scheduler::report_hang(const char *detail) {
    for (Active &a : active_) a.resident.front()->report_hang(detail);
}

void Scheduler::abandon(Active &active) {
    for (auto &b : active.resident) pool().give(std::move(b));
}

}  // namespace kimi::simt::host
