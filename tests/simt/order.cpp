#include "tests/simt/order.h"

#include <algorithm>

#include "tests/simt/block.h"

namespace kimi::simt::host {
namespace {

void raise_to(Stamp &stamp, Stamp at_least) {
    stamp = std::max(stamp, at_least);
}

unsigned warp_of(unsigned thread) {
    return thread / kWarpSize;
}

}  // namespace

void Knowledge::join(const Knowledge &other) {
    for (unsigned g = 0; g < kGroups; ++g) raise_to(group[g], other.group[g]);
    if (!other.has_threads) return;
    if (!has_threads) {
        thread = other.thread;
        has_threads = true;
        return;
    }
    for (std::size_t i = 0; i < thread.size(); ++i) raise_to(thread[i], other.thread[i]);
}

void Order::reset(Block &block) {
    block_ = &block;
    addresses_.clear();
    n_used_ = 0;
    joined_.fill({});
    block_barrier_ = 0;
    now_ = 1;
    for (unsigned w = 0; w < block.n_warps(); ++w) block.warp(w).synced = 0;
    for (unsigned i = 0; i < block.n_threads(); ++i) {
        block.thread(i).stamp = now_;
        block.thread(i).known = &nothing_;
    }
}

bool Order::before_slow(unsigned writer, Stamp stamp, const Thread &reader) const {
    if (writer >= kMaxThreads) {
        return reader.known->group[kMaxWarps + writer - kMaxThreads] >= stamp;
    }
    if (writer == reader.index) return true;
    const unsigned warp = warp_of(writer);
    if (warp == reader.warp->index && stamp <= reader.warp->synced) return true;
    const Knowledge &known = *reader.known;
    return known.group[warp] >= stamp || (known.has_threads && known.thread[writer] >= stamp);
}

bool Order::before_warp_slow(unsigned writer, Stamp stamp, const Warp &warp) const {
    if (writer < kMaxThreads && warp_of(writer) == warp.index && stamp <= warp.synced) return true;
    const Knowledge *checked = nullptr;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if ((warp.exists >> lane & 1U) == 0) continue;
        const Thread &reader = warp.threads[lane];
        if (reader.index == writer || reader.known == checked) continue;
        if (!before_slow(writer, stamp, reader)) return false;
        checked = reader.known;
    }
    return true;
}

bool Order::group_before(unsigned group, Stamp stamp, const Thread &reader) const {
    if (group < kMaxWarps) {
        if (stamp <= block_barrier_) return true;
        if (group == reader.warp->index && stamp <= reader.warp->synced) return true;
    }
    const Knowledge &known = *reader.known;
    if (known.group[group] >= stamp) return true;
    if (!known.has_threads || group >= kMaxWarps) return false;
    const Warp &warp = block_->warp(group);
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if ((warp.exists >> lane & 1U) == 0) continue;
        const unsigned i = group * kWarpSize + lane;
        if (i != reader.index && known.thread[i] < stamp) return false;
    }
    return true;
}

// ---- events

void Order::block_barrier() {
    block_barrier_ = now_++;
    for (unsigned w = 0; w < block_->n_warps(); ++w) block_->warp(w).synced = block_barrier_;
    for (unsigned i = 0; i < block_->n_threads(); ++i) block_->thread(i).stamp = now_;
    block_->shadow().block_barrier();
    if (n_used_ > 0 || !addresses_.empty()) keep_agents_only();
    if (now_ >= kLimit / 2) forget();
}

void Order::warp_barrier(Warp &warp, std::uint32_t lanes) {
    forget_if_exhausted();
    const Knowledge *known = join_lanes(warp, lanes);
    if (lanes == warp.exists) {
        warp.synced = now_;
    } else {
        Knowledge &together = fresh();
        together.join(*known);
        if (!together.has_threads) {
            together.has_threads = true;
            together.thread.assign(block_->n_threads(), 0);
        }
        for (unsigned lane = 0; lane < kWarpSize; ++lane) {
            if ((lanes >> lane & 1U) == 0) continue;
            const Thread &t = warp.threads[lane];
            raise_to(together.thread[t.index], t.stamp);
        }
        known = &together;
    }
    ++now_;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if ((lanes >> lane & 1U) == 0) continue;
        warp.threads[lane].stamp = now_;
        warp.threads[lane].known = known;
    }
}

// A later stamp than needed does no harm.
void Order::align_stamps(Warp &warp) {
    Stamp latest = 0;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if ((warp.exists >> lane & 1U) != 0) raise_to(latest, warp.threads[lane].stamp);
    }
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if ((warp.exists >> lane & 1U) != 0) warp.threads[lane].stamp = latest;
    }
}

void Order::release(Thread &thread, Knowledge &channel) {
    forget_if_exhausted();
    release_to(thread, channel);
}

void Order::release_to(Thread &thread, Knowledge &channel) {
    channel.join(*thread.known);
    raise_to(channel.group[thread.warp->index], thread.warp->synced);
    if (!channel.has_threads) {
        channel.has_threads = true;
        channel.thread.assign(block_->n_threads(), 0);
    }
    raise_to(channel.thread[thread.index], thread.stamp);
    // Lanes that release equally often keep equal stamps, which fold() needs.
    ++thread.stamp;
    raise_to(now_, thread.stamp);
}

const Knowledge *Order::snapshot(Knowledge &channel) {
    fold(channel);
    Knowledge &copy = fresh();
    copy.join(channel);
    return &copy;
}

void Order::acquire(Thread &thread, const Knowledge *known) {
    thread.known = join(thread.known, known);
}

void Order::synchronise_at(Thread &thread, std::uint32_t offset) {
    forget_if_exhausted();
    Knowledge &channel = addresses_[offset];
    acquire(thread, snapshot(channel));
    release_to(thread, channel);
}

// ---- sets of knowledge

Knowledge &Order::fresh() {
    if (n_used_ == pool_.size()) pool_.emplace_back();
    Knowledge &k = pool_[n_used_++];
    k.group.fill(0);
    k.has_threads = false;
    return k;
}

const Knowledge *Order::join(const Knowledge *a, const Knowledge *b) {
    if (a == b || b == &nothing_) return a;
    if (a == &nothing_) return b;
    const auto hash = reinterpret_cast<std::uintptr_t>(a) / sizeof *a * 7 +
                      reinterpret_cast<std::uintptr_t>(b) / sizeof *b;
    Joined &memo = joined_[hash % joined_.size()];
    if (memo.a == a && memo.b == b) return memo.result;
    Knowledge &both = fresh();
    both.join(*a);
    both.join(*b);
    memo = {a, b, &both};
    return &both;
}

const Knowledge *Order::join_lanes(const Warp &warp, std::uint32_t lanes) {
    const Knowledge *known = &nothing_;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if ((lanes >> lane & 1U) != 0) known = join(known, warp.threads[lane].known);
    }
    return known;
}

// Where all threads of a warp released at the same stamp, that is one number of the warp.
void Order::fold(Knowledge &known) const {
    if (!known.has_threads) return;
    known.has_threads = false;
    const std::size_t n = known.thread.size();
    for (std::size_t first = 0; first < n; first += kWarpSize) {
        const auto begin = known.thread.begin() + static_cast<std::ptrdiff_t>(first);
        const auto end =
            begin + static_cast<std::ptrdiff_t>(std::min<std::size_t>(kWarpSize, n - first));
        const auto [low, high] = std::minmax_element(begin, end);
        Stamp &group = known.group[first / kWarpSize];
        raise_to(group, *low);
        if (*high <= group) {
            std::fill(begin, end, 0);
        } else {
            known.has_threads = true;
        }
    }
}

// After a barrier of the whole block all threads know the same: every thread, and of the bulk
// copies what any thread knew.
void Order::keep_agents_only() {
    addresses_.clear();
    Knowledge base;
    const Knowledge *last = nullptr;
    for (unsigned i = 0; i < block_->n_threads(); ++i) {
        const Knowledge *known = block_->thread(i).known;
        if (known != last) base.join(*known);
        last = known;
    }
    std::vector<Knowledge> phases;
    for (const Mbarrier &m : block_->mbarriers()) phases.push_back(*m.last_phase);

    const auto agents_of = [](Knowledge &to, const Knowledge &from) {
        std::copy(from.group.begin() + kMaxWarps, from.group.end(), to.group.begin() + kMaxWarps);
    };
    n_used_ = 0;
    joined_.fill({});
    const Knowledge *common = &nothing_;
    if (!phases.empty()) {
        Knowledge &k = fresh();
        agents_of(k, base);
        common = &k;
    }
    for (unsigned i = 0; i < block_->n_threads(); ++i) block_->thread(i).known = common;
    for (std::size_t i = 0; i < phases.size(); ++i) {
        Knowledge &k = fresh();
        agents_of(k, phases[i]);
        block_->mbarriers()[i].last_phase = &k;
    }
}

void Order::forget() {
    Block &block = *block_;
    block.shadow().forget();
    reset(block);
    block_barrier_ = now_++;
    for (unsigned w = 0; w < block.n_warps(); ++w) block.warp(w).synced = block_barrier_;
    for (unsigned i = 0; i < block.n_threads(); ++i) {
        Thread &t = block.thread(i);
        t.stamp = now_;
        t.async.waited_at.fill(block_barrier_);
    }
    for (Mbarrier &m : block.mbarriers()) {
        m.channel = {};
        m.last_phase = &nothing_;
        m.init_stamp = block_barrier_;
    }
    for (Barrier &b : block.barriers()) b.channel = {};
}

}  // namespace kimi::simt::host
