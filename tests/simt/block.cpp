#include "tests/simt/block.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "base/error.h"
#include "tests/simt/scheduler.h"

namespace kimi::simt::host {
namespace {

std::uint32_t low_bits(unsigned n) {
    return n >= kWarpSize ? ~0U : (1U << n) - 1;
}

std::uint32_t aligned(std::uint32_t bytes) {
    constexpr std::uint32_t kAlignment = 16;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Dim3 unfold(std::uint64_t i, const Dim3 &extent) {
    const auto n = static_cast<unsigned>(i / extent.x);
    return {static_cast<unsigned>(i % extent.x), n % extent.y, n / extent.y};
}

}  // namespace

void fail_outside_kernel() {
    fail(KIMI_INTERNAL, "device code outside a kernel, or device memory read by the host");
}

void Block::FreeAligned::operator()(std::byte *p) const {
    std::free(p);
}

Block::Block(std::size_t stack_bytes)
    : stack_bytes_(stack_bytes),
      shared_(static_cast<std::byte *>(std::aligned_alloc(128, kMaxSharedBytes))) {
    KIMI_CHECK(shared_ != nullptr);
}

void Block::start(LaunchRun &run, std::uint64_t number, Tally &tally, std::uint64_t &progress) {
    run_ = &run;
    launch_ = &run.launch;
    tally_ = &tally;
    progress_ = &progress;
    number_ = number;
    index_ = unfold(number, launch_->grid);
    n_threads_ = n_live_ = launch_->n_threads();
    failed_ = false;
    backward_ = run.options.backward;
    checks_races_ = run.options.races;
    counts_ = run.options.counters;

    dynamic_bytes_ = static_cast<std::uint32_t>(launch_->shared_bytes);
    shared_bytes_ = aligned(dynamic_bytes_);
    std::memset(shared_.get(), 0xff, shared_bytes_);
    static_arrays_.clear();
    for (Barrier &b : barriers_) {
        if (b.expected != 0) b = Barrier();
    }
    mbarriers_.clear();
    prepare_threads();
    order_.reset(*this);
    shadow_.reset(*this, shared_bytes_);
    made_progress();
}

void Block::prepare_threads() {
    if (!stacks_ || stacks_->count() < n_threads_) {
        stacks_ = std::make_unique<Stacks>(n_threads_, stack_bytes_);
        threads_.resize(n_threads_);
        logs_.resize(std::size_t{n_threads_} * kLogEntries);
        warps_.resize(n_warps());
    }
    for (unsigned w = 0; w < n_warps(); ++w) {
        Warp &warp = warps_[w];
        warp.block = this;
        warp.index = w;
        warp.threads = &threads_[std::size_t{w} * kWarpSize];
        warp.exists = warp.runnable = low_bits(n_threads_ - w * kWarpSize);
        warp.exited = warp.polling = warp.log_full = warp.meeting = 0;
        warp.has_log = false;
        for (Rendezvous &r : warp.rendezvous) r.arrived = 0;
        if (!warp.tensor) warp.tensor = std::make_unique<TensorQueue>();
        warp.tensor->reset();
    }
    for (unsigned i = 0; i < n_threads_; ++i) {
        Thread &t = threads_[i];
        std::construct_at(&t);
        static_cast<Context &>(t) = stacks_->start(i, thread_main);
        t.block = this;
        t.warp = &warps_[i / kWarpSize];
        t.index = i;
        t.lane = i % kWarpSize;
        t.position = unfold(i, launch_->block);
        t.log = &logs_[std::size_t{i} * kLogEntries];
    }
}

void Block::resume() {
    if (Thread *first = next(warps_[0])) {
        running_thread = first;
        switch_context(scheduler_, *first);
        running_thread = nullptr;
    }
}

void Block::thread_main(boost::context::detail::transfer_t from) {
    arrived_from(from);
    Block &block = *running_thread->block;
    bool abandoned = false;
    try {
        block.launch_->body();
        wait_for_tensor_operations(*running_thread);
    } catch (const Abandon &) {
        abandoned = true;
    } catch (...) {
        block.run_->add_exception();
        abandoned = true;
    }
    if (abandoned) {
        block.failed_ = true;
        switch_context(*running_thread, block.scheduler_);
    }
    block.exit_thread(*running_thread);
}

// ---- who runs next

Thread *Block::next_in(Warp &warp) {
    if (warp.runnable == 0 && warp.tensor->settling != 0) run_tensor_queue(warp);
    if (warp.runnable == 0 && warp.log_full != 0) {
        flush(warp);
        warp.runnable = std::exchange(warp.log_full, 0);
    }
    return warp.runnable == 0 ? nullptr : &warp.threads[pick(warp.runnable)];
}

// The lanes of one warp first: they usually meet soon, and their stacks are in the cache.
Thread *Block::next(Warp &from) {
    const unsigned n = n_warps();
    for (unsigned i = 0; i < n; ++i) {
        const unsigned step = backward_ ? n - i : i;
        if (Thread *t = next_in(warps_[(from.index + step) % n])) return t;
    }
    return nullptr;
}

void Block::exit_thread(Thread &thread) {
    Warp &warp = *thread.warp;
    const std::uint32_t bit = 1U << thread.lane;
    warp.exited |= bit;
    --n_live_;
    made_progress();
    if ((warp.meeting & bit) != 0 || warp.tensor->settling != 0) {
        report_lost_warp(thread);
        failed_ = true;
    } else if (n_live_ == 0) {
        if (counts_) flush_all();
        for (unsigned id = 0; id < kBarriers; ++id) {
            if (barriers_[id].arrived == 0) continue;
            record(FaultKind::kBarrierDivergence, thread, barriers_[id].site,
                   cat("barrier ", id, " is left with ", barriers_[id].arrived, " of ",
                       barriers_[id].expected, " arrivals"));
            failed_ = true;
        }
    }
    if (failed_) switch_context(thread, scheduler_);
    park(Wait::kExited, "", {});
}

// ---- polling

bool Block::is_polling() const {
    return std::any_of(warps_.begin(), warps_.begin() + n_warps(),
                       [](const Warp &w) { return w.polling != 0; });
}

void Block::wake_pollers() {
    for (unsigned i = 0; i < n_warps(); ++i) {
        Warp &w = warps_[i];
        w.runnable |= std::exchange(w.polling, 0);
    }
}

bool Block::poll(std::uint64_t address, std::uint64_t value, Site site) {
    constexpr unsigned kPollsPerTurn = 16;  // for loops over several flags
    Thread &t = *running_thread;
    const bool unchanged = t.polled_address == address && t.polled_value == value;
    t.polled_address = address;
    t.polled_value = value;
    if (++t.n_polls < kPollsPerTurn && !unchanged) return false;
    t.n_polls = 0;
    t.warp->polling |= 1U << t.lane;
    park(Wait::kPoll, "a value to change", site);
    return true;
}

// ---- the log of accesses

void Block::log(Thread &thread, Site site, const Memory *memory, std::uint64_t where) {
    thread.log[thread.n_logged++] = {Access::pack(site), memory, where};
    thread.warp->has_log = true;
}

void Block::park_full_log(Thread &thread, Site site) {
    thread.warp->log_full |= 1U << thread.lane;
    park(Wait::kLog, "the other lanes", site);
}

void Block::flush(Warp &warp) {
    if (!warp.has_log) return;
    warp.has_log = false;
    Tally::Log log;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        const bool exists = (warp.exists >> lane & 1U) != 0;
        log.lanes[lane] = exists ? warp.threads[lane].log : nullptr;
        log.counts[lane] = exists ? std::exchange(warp.threads[lane].n_logged, 0) : 0;
    }
    tally_->add_log(log);
}

void Block::flush_all() {
    for (unsigned i = 0; i < n_warps(); ++i) flush(warps_[i]);
}

// ---- shared memory

SharedPlace Block::dynamic_shared(std::uint32_t offset, std::uint64_t bytes, Site site) {
    const std::uint64_t end = offset + bytes;
    if (end > dynamic_bytes_) {
        fault(FaultKind::kOutOfBounds, site,
              cat("dynamic_shared up to byte ", end, ", but the launch has ", dynamic_bytes_));
    }
    return {offset, offset, static_cast<std::uint32_t>(end)};
}

SharedPlace Block::static_shared(const void *key, std::uint64_t bytes, Site site) {
    for (const StaticArray &a : static_arrays_) {
        if (a.key == key) return a.place;
    }
    const std::uint32_t begin = shared_bytes_;
    if (begin + bytes > kMaxSharedBytes) {
        fault(FaultKind::kBadLaunch, site,
              cat("static and dynamic shared memory take ", begin + bytes, " of ", kMaxSharedBytes,
                  " bytes"));
    }
    const auto end = static_cast<std::uint32_t>(begin + bytes);
    shared_bytes_ = aligned(end);
    std::memset(shared_.get() + begin, 0xff, shared_bytes_ - begin);
    shadow_.extend(shared_bytes_);
    static_arrays_.push_back({key, {begin, begin, end}});
    return static_arrays_.back().place;
}

}  // namespace kimi::simt::host
