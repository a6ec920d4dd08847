// Where lanes and threads meet: warp operations and barriers.
#include <bit>
#include <utility>

#include "base/error.h"
#include "tests/simt/block.h"

namespace kimi::simt::host {

static std::string hex(std::uint32_t mask) {
    static const char *const digits = "0123456789abcdef";
    std::string out = "0x";
    for (int shift = 28; shift >= 0; shift -= 4) out.push_back(digits[mask >> shift & 15U]);
    return out;
}

void Block::open_rendezvous(Thread &thread, Rendezvous &r, std::uint32_t mask, Collective operation,
                            const char *name, Site site) {
    Warp &warp = *thread.warp;
    if ((mask & ~warp.exists) != 0 || (mask & warp.exited) != 0) {
        fault(FaultKind::kMissingLanes, site,
              cat(name, " names lanes ", hex(mask & (warp.exited | ~warp.exists)),
                  ", which have exited or do not exist"));
    }
    if ((warp.meeting & mask) != 0) {
        fault(FaultKind::kMissingLanes, site,
              cat(name, " with mask ", hex(mask), ", but lanes ", hex(warp.meeting & mask),
                  " are named by another operation that is under way"));
    }
    warp.meeting |= mask;
    r.mask = mask;
    r.operation = operation;
    r.site = site;
}

void Block::fault_in_collective(const Rendezvous &r, std::uint32_t mask, const char *name,
                                Site site) {
    const Thread &thread = *running_thread;
    if ((mask >> thread.lane & 1U) == 0) {
        fault(FaultKind::kMissingLanes, site,
              cat(name, " with mask ", hex(mask), ", which leaves out the calling lane ",
                  thread.lane));
    }
    fault(FaultKind::kMissingLanes, site,
          cat(name, " with mask ", hex(mask), ", while other lanes of it are at ", r.site.file, ':',
              r.site.line, " with mask ", hex(r.mask)));
}

void Block::barrier(unsigned id, unsigned threads, bool waits, Site site) {
    Thread &thread = *running_thread;
    if (id >= kBarriers || threads % kWarpSize != 0 || threads == 0) {
        // __syncthreads of a block that is no multiple of 32 is fine.
        if (id != 0 || threads != n_threads_) {
            fault(FaultKind::kBadArgument, site, cat("barrier ", id, " for ", threads, " threads"));
        }
    }
    wait_for_tensor_operations(thread);
    Barrier &b = barriers_[id];
    Warp &warp = *thread.warp;
    const std::uint32_t bit = 1U << thread.lane;
    if (b.arrived == 0) {
        b.expected = threads;
        b.site = site;
    } else if (b.expected != threads || (id == 0 && !(b.site == site))) {
        fault(FaultKind::kBarrierDivergence, site,
              cat("barrier ", id, " for ", threads, " threads, while others wait at it for ",
                  b.expected, " at ", b.site.file, ':', b.site.line));
    } else if ((b.lanes[warp.index] & bit) != 0) {
        fault(FaultKind::kBarrierDivergence, site,
              cat("barrier ", id, ": the thread arrives twice in one round"));
    }
    ++b.arrived;
    b.lanes[warp.index] |= bit;
    if (waits) b.waiting[warp.index] |= bit, ++b.n_waiting;
    if (checks_races_ && id != 0) order_.release(thread, b.channel);
    if (b.arrived == b.expected) {
        complete(b, id, site);
        warp.runnable |= bit;
    } else if (waits) {
        thread.wait_number = id;
        park(Wait::kBarrier, "barrier", site);
    }
}

void Block::complete(Barrier &b, unsigned id, Site site) {
    const bool whole_block = b.n_waiting == n_threads_;
    const Knowledge *known = nullptr;
    if (checks_races_ && !whole_block) known = order_.snapshot(b.channel);
    if (counts_) ++tally_->instructions.block_barriers;
    for (unsigned w = 0; w < n_warps(); ++w) {
        Warp &warp = warps_[w];
        if (b.lanes[w] == 0) continue;
        if (b.lanes[w] != warp.exists) {
            fault(FaultKind::kBarrierDivergence, site,
                  cat("barrier ", id, ": only lanes ", hex(b.lanes[w]), " of warp ", w,
                      " take part"));
        }
        if (counts_) flush(warp);
        const std::uint32_t waiting = std::exchange(b.waiting[w], 0);
        b.lanes[w] = 0;
        warp.runnable |= waiting;
        if (known == nullptr) continue;
        for (unsigned lane = 0; lane < kWarpSize; ++lane) {
            if ((waiting >> lane & 1U) != 0) order_.acquire(warp.threads[lane], known);
        }
    }
    if (checks_races_ && whole_block) order_.block_barrier();
    b.arrived = b.n_waiting = 0;
}

}  // namespace kimi::simt::host
