#include "tests/simt/async.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace kimi::simt::host {

// ---- cp.async

void async_copy(const SharedPlace &to, const GlobalPlace &from, unsigned bytes, unsigned valid,
                Site site) {
    Thread &thread = current_thread();
    Block &block = *thread.block;
    if (valid > bytes) {
        block.fault(FaultKind::kBadArgument, site,
                    cat("cp.async of ", bytes, " bytes with ", valid, " valid"));
    }
    check_shared(thread, to, bytes, bytes, "cp.async", site);
    if (valid > 0) check_global(thread, from, valid, bytes, "cp.async", site);
    wait_for_tensor_operations(thread);
    if (block.counts()) {
        if (valid > 0) {
            block.make_room(thread, site);
            block.log(thread, site, from.memory, Access::pack(from.address, valid, Op::kAsyncCopy));
        }
        block.make_room(thread, site);
        block.log(thread, site, nullptr, Access::pack(to.at, bytes, Op::kAsyncCopy));
    }
    block.shadow().write_async(thread, to.at, bytes, site);
    std::byte *destination = block.shared_memory() + to.at;
    const auto *source = reinterpret_cast<const std::byte *>(from.address);
    if (valid > 0) mark_global_read(thread, from, valid, site);
    if (valid == 16) {
        std::memcpy(destination, source, 16);
    } else {
        std::memset(destination, 0, bytes);
        if (valid > 0) std::memcpy(destination, source, valid);
    }
}

void async_commit() {
    ++current_thread().async.open;
}

void async_wait(std::uint32_t pending) {
    Thread &thread = current_thread();
    wait_for_tensor_operations(thread);
    AsyncGroups &groups = thread.async;
    const std::uint32_t committed = groups.open - 1;
    while (groups.complete + pending < committed) {
        ++groups.complete;
        groups.waited_at[groups.complete % AsyncGroups::kRemembered] = thread.stamp;
    }
}

// ---- mbarriers

namespace {

Mbarrier &mbarrier_at(Thread &thread, const SharedPlace &place, Site site) {
    wait_for_tensor_operations(thread);
    Block &block = *thread.block;
    check_shared(thread, place, 8, 8, "mbarrier", site);
    for (Mbarrier &m : block.mbarriers()) {
        if (m.offset != place.at) continue;
        if (block.checks_races() && !block.order().before(m.init_thread, m.init_stamp, thread)) {
            block.fault(thread, FaultKind::kSharedRace, site,
                        "the mbarrier is used without order after its initialisation", "(shared)",
                        place.at);
        }
        return m;
    }
    block.fault(thread, FaultKind::kUnwrittenShared, site, "not an initialised mbarrier",
                "(shared)", place.at);
}

void end_phase_if_complete(Block &block, Mbarrier &m) {
    if (m.pending != 0 || m.bytes != 0) return;
    ++m.phase;
    m.pending = m.arrivals;
    m.last_phase = block.order().snapshot(m.channel);
    for (Thread *t : m.waiting) Block::make_runnable(*t);
    m.waiting.clear();
    block.made_progress();
}

bool phase_is_over(const Mbarrier &m, std::uint32_t parity) {
    return (m.phase & 1U) != (parity & 1U);
}

}  // namespace

void mbarrier_init(const SharedPlace &barrier, std::uint32_t arrivals, Site site) {
    constexpr std::uint32_t kMaxArrivals = (1U << 20) - 1;
    Thread &thread = current_thread();
    Block &block = *thread.block;
    check_shared(thread, barrier, 8, 8, "mbarrier", site);
    const bool again = std::any_of(block.mbarriers().begin(), block.mbarriers().end(),
                                   [&](const Mbarrier &m) { return m.offset == barrier.at; });
    if (arrivals == 0 || arrivals > kMaxArrivals || again ||
        block.mbarriers().size() == kMaxAgents) {
        block.fault(FaultKind::kBadArgument, site,
                    again ? "the mbarrier is initialised twice"
                          : cat("mbarrier number ", block.mbarriers().size(), " with ", arrivals,
                                " arrivals"));
    }
    block.shadow().write(thread, barrier.at, 8, site);
    Mbarrier &m = block.mbarriers().emplace_back();
    m.offset = barrier.at;
    m.arrivals = m.pending = arrivals;
    m.init_thread = thread.index;
    m.init_stamp = thread.stamp;
    m.last_phase = block.order().nothing();
}

void mbarrier_arrive(const SharedPlace &barrier, std::uint32_t expect_bytes, Site site) {
    Thread &thread = current_thread();
    Block &block = *thread.block;
    Mbarrier &m = mbarrier_at(thread, barrier, site);
    if (m.pending == 0) {
        block.fault(FaultKind::kBadArgument, site,
                    cat("more than ", m.arrivals, " arrivals in one phase of the mbarrier"));
    }
    block.order().release(thread, m.channel);
    m.bytes += expect_bytes;
    --m.pending;
    end_phase_if_complete(block, m);
}

bool mbarrier_test(const SharedPlace &barrier, std::uint32_t parity, Site site) {
    Thread &thread = current_thread();
    Block &block = *thread.block;
    if (!phase_is_over(mbarrier_at(thread, barrier, site), parity)) {
        block.poll(barrier.at, 0, site);
        if (!phase_is_over(mbarrier_at(thread, barrier, site), parity)) return false;
    }
    block.order().acquire(thread, mbarrier_at(thread, barrier, site).last_phase);
    return true;
}

void mbarrier_wait(const SharedPlace &barrier, std::uint32_t parity, Site site) {
    Thread &thread = current_thread();
    Block &block = *thread.block;
    while (!phase_is_over(mbarrier_at(thread, barrier, site), parity)) {
        mbarrier_at(thread, barrier, site).waiting.push_back(&thread);
        thread.wait_number = barrier.at;
        block.park(Wait::kMbarrier, "mbarrier", site);
    }
    block.order().acquire(thread, mbarrier_at(thread, barrier, site).last_phase);
}

// ---- bulk copies

void bulk_copy(const SharedPlace &to, const GlobalPlace &from, std::uint32_t bytes,
               const SharedPlace &barrier, Site site) {
    constexpr unsigned kUnit = 16;
    Thread &thread = current_thread();
    Block &block = *thread.block;
    if (bytes % kUnit != 0) {
        block.fault(FaultKind::kMisaligned, site, cat("cp.async.bulk of ", bytes, " bytes"));
    }
    check_shared(thread, to, bytes, kUnit, "cp.async.bulk", site);
    check_global(thread, from, bytes, kUnit, "cp.async.bulk", site);
    Mbarrier &m = mbarrier_at(thread, barrier, site);
    if (block.counts() && bytes > 0) {
        block.tally().add_bulk_copy(site, *from.memory, from.address, bytes);
    }
    mark_global_read(thread, from, bytes, site);
    const auto agent = static_cast<unsigned>(&m - block.mbarriers().data());
    const Stamp stamp = block.order().next_stamp();
    block.shadow().write_bulk(thread, agent, stamp, to.at, bytes, site);
    std::memcpy(block.shared_memory() + to.at, reinterpret_cast<const void *>(from.address), bytes);
    m.channel.group[kMaxWarps + agent] = stamp;
    m.bytes -= bytes;
    end_phase_if_complete(block, m);
}

}  // namespace kimi::simt::host
