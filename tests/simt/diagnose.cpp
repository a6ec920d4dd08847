// Messages for what went wrong in a block.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tests/simt/block.h"
#include "tests/simt/scheduler.h"

namespace kimi::simt::host {

void Block::record(FaultKind kind, const Thread &thread, Site site, std::string detail,
                   const std::string &buffer, std::uint64_t offset) {
    run_->add({kind, launch_->name, index_, thread.position, number_, buffer, offset, site,
               std::move(detail)});
}

void Block::fault(const Thread &thread, FaultKind kind, Site site, std::string detail,
                  const std::string &buffer, std::uint64_t offset) {
    record(kind, thread, site, std::move(detail), buffer, offset);
    throw Abandon();
}

std::string Block::describe(const Thread &t) const {
    const std::string who =
        cat("thread (", t.position.x, ',', t.position.y, ',', t.position.z, ')');
    const std::string where = cat(" at ", t.wait_site.file, ':', t.wait_site.line);
    switch (t.wait) {
        case Wait::kExited:
            return who + " has exited";
        case Wait::kBarrier:
            return cat(who, " waits at barrier ", t.wait_number, where);
        case Wait::kMbarrier: {
            for (const Mbarrier &m : mbarriers_) {
                if (m.offset != t.wait_number) continue;
                return cat(who, " waits for the mbarrier at byte ", m.offset, ", phase ", m.phase,
                           ", which misses ", m.pending, " arrivals and ", m.bytes, " bytes",
                           where);
            }
            break;
        }
        default:
            break;
    }
    return cat(who, " waits for ", t.wait_for, where);
}

// One thread for each different place.
std::string Block::describe_waiting() const {
    std::string out;
    std::vector<const Thread *> named;
    for (unsigned i = 0; i < n_threads_; ++i) {
        const Thread &t = threads_[i];
        const bool is_new = std::none_of(named.begin(), named.end(), [&t](const Thread *n) {
            return n->wait == t.wait && n->wait_site == t.wait_site &&
                   n->wait_number == t.wait_number;
        });
        if (!is_new) continue;
        named.push_back(&t);
        out += cat(out.empty() ? "" : "; ", describe(t));
    }
    return out;
}

void Block::report_lost_warp(const Thread &exiting) {
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if ((exiting.warp->exists >> lane & 1U) == 0) continue;
        const Thread &t = exiting.warp->threads[lane];
        if (t.wait != Wait::kWarp || (t.wait_lanes >> exiting.lane & 1U) == 0) continue;
        record(FaultKind::kMissingLanes, t, t.wait_site,
               cat(t.wait_for, " waits for lane ", exiting.lane, ", which exits"));
        return;
    }
}

// Whether the thread waits for a lane that is not itself kept up by a deadlock.
bool Block::misses_lanes(const Thread &t) const {
    if (t.wait != Wait::kWarp) return false;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if ((t.wait_lanes >> lane & 1U) == 0) continue;
        const Thread &other = t.warp->threads[lane];
        const bool together = other.wait == Wait::kWarp && other.wait_lanes == t.wait_lanes &&
                              other.wait_for == t.wait_for;
        if (!together && other.wait != Wait::kMbarrier) return true;
    }
    return false;
}

void Block::report_stuck() {
    failed_ = true;
    const Thread *first = nullptr;
    bool only_barriers = true;
    for (unsigned i = 0; i < n_threads_; ++i) {
        const Thread &t = threads_[i];
        if (misses_lanes(t)) {
            return record(FaultKind::kMissingLanes, t, t.wait_site, describe_waiting());
        }
        if (t.wait == Wait::kExited) continue;
        only_barriers &= t.wait == Wait::kBarrier;
        if (first == nullptr) first = &t;
    }
    record(only_barriers ? FaultKind::kBarrierDivergence : FaultKind::kDeadlock, *first,
           first->wait_site, describe_waiting());
}

void Block::report_hang(const char *detail) {
    failed_ = true;
    for (unsigned i = 0; i < n_threads_; ++i) {
        const Thread &t = threads_[i];
        if (t.wait != Wait::kPoll) continue;
        return record(FaultKind::kHang, t, t.wait_site, cat(detail, ": ", describe_waiting()));
    }
}

}  // namespace kimi::simt::host
