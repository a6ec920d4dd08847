#include "kv/kv_space.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "base/error.h"

namespace kimi {
namespace {

// Rings kept of cached prefixes.
constexpr std::uint32_t kSnapshots = 16;
// Mean pages per run below which moving pages is worth it.
constexpr double kShortRun = 8;

}  // namespace

KvSpace::KvSpace(KvMemory &memory, const DeviceLimits &limits, const HostHeap &heap)
    : memory_(memory),
      window_(limits.draft.window),
      ring_slots_(limits.draft.ring_slots),
      pool_(limits.kv.n_pages),
      cache_(pool_),
      plan_(limits.kv.n_pages) {
    for (std::uint32_t ring = limits.draft.n_rings; ring-- > 0;) free_rings_.push_back(ring);
    if (memory.ring_bytes() > 0) {
        snapshots_.resize(kSnapshots);
        snapshot_memory_ =
            HostMemory(heap, kSnapshots * memory.ring_bytes(), "snapshots of the drafter's rings");
    }
    cached_pages_.reserve(limits.kv.n_pages);
}

void KvSpace::open(KvSequence &sequence, std::uint32_t max_tokens) {
    sequence.pages.reserve(pages_for(max_tokens));
    tables_.reserve(tables_.size() + 1);
    plan_.reserve(tables_.size() + 1);
    sequences_.push_back(&sequence);
    tables_.push_back(&sequence.pages);
    if (!free_rings_.empty()) {
        sequence.drafts = true;
        sequence.ring = free_rings_.back();
        free_rings_.pop_back();
    }
}

void KvSpace::close(KvSequence &sequence) {
    pool_.shrink(sequence.pages, 0);
    std::erase(sequences_, &sequence);
    std::erase(tables_, &sequence.pages);
    if (sequence.drafts) free_rings_.push_back(sequence.ring);
    check_in_debug();
}

void KvSpace::make_room(std::uint32_t n_pages, std::uint64_t n_tokens) {
    if (n_pages <= pool_.n_free()) return;
    const std::uint32_t available = n_available();
    if (n_pages > available)
        fail(KIMI_BUSY, "the KV cache has ", available, " free pages of ", pool_.n_pages(), ", ",
             n_pages, " more are needed for ", n_tokens, " tokens");
    const std::uint32_t before = pool_.n_free();
    cache_.evict(n_pages, [&](std::uint32_t node) {
        for (Snapshot &snapshot : snapshots_)
            if (snapshot.node == node) snapshot.node = PrefixCache::kNone;
    });
    counts_.evicted += pool_.n_free() - before;
}

void KvSpace::reserve(KvSequence &sequence, std::uint32_t n_tokens, std::uint64_t expected) {
    if (n_tokens <= sequence.n_tokens) return;
    const auto wanted = static_cast<std::uint32_t>(pages_for(n_tokens));
    const auto has = static_cast<std::uint32_t>(sequence.pages.size());
    const std::uint32_t first = sequence.n_tokens / kPageTokens;  // page that is written first
    std::uint32_t n_shared = 0;
    for (std::uint32_t i = first; i < has; ++i) n_shared += pool_.uses(sequence.pages[i]) > 1;
    const std::uint32_t n_new = n_shared + (wanted > has ? wanted - has : 0);
    if (n_new == 0) return;
    make_room(n_new, n_tokens);
    for (std::uint32_t i = first; i < has; ++i) {
        const std::uint32_t shared = sequence.pages[i];
        if (pool_.uses(shared) > 1) memory_.copy_page(shared, pool_.replace(sequence.pages, i));
    }
    const auto foreseen = static_cast<std::uint32_t>(pages_for(expected));
    if (wanted > has) pool_.grow(sequence.pages, wanted - has, foreseen > has ? foreseen - has : 0);
    moved_ = true;
    check_in_debug();
}

void KvSpace::truncate(KvSequence &sequence, std::uint32_t n_tokens) {
    sequence.n_tokens = std::min(sequence.n_tokens, n_tokens);
    sequence.full_begin = std::min(sequence.full_begin, sequence.n_tokens);
    sequence.ring_begin = std::min(sequence.ring_begin, sequence.n_tokens);
    pool_.shrink(sequence.pages, pages_for(sequence.n_tokens));
    check_in_debug();
}

void KvSpace::written(KvSequence &sequence, std::uint32_t n, std::uint32_t n_drafter) {
    const std::uint32_t drafter_end = sequence.n_tokens + n_drafter;
    sequence.n_tokens += n;
    if (drafter_end > ring_slots_)
        sequence.ring_begin = std::max(sequence.ring_begin, drafter_end - ring_slots_);
}

std::byte *KvSpace::snapshot_data(const Snapshot &snapshot) const {
    const auto index = static_cast<std::size_t>(&snapshot - snapshots_.data());
    return snapshot_memory_.data() + index * memory_.ring_bytes();
}

// Pages of the match that a sequence takes over: all, where nothing is drafted; up to a snapshot of
// the ring; or up to a window before the end, so that the tokens that are computed again fill the
// ring.
std::uint32_t KvSpace::usable_pages(const KvSequence &sequence, PrefixCache::Match match,
                                    const Snapshot **snapshot) {
    *snapshot = nullptr;
    if (!sequence.drafts || window_ == 0) return match.n_pages;
    const auto refill = static_cast<std::uint32_t>(pages_for(window_));
    std::uint32_t usable = match.n_pages > refill ? match.n_pages - refill : 0;
    for (std::uint32_t up = 0; up < match.n_pages - usable; ++up) {
        const std::uint32_t node = cache_.ancestor(match.node, up);
        for (Snapshot &candidate : snapshots_) {
            if (candidate.node != node) continue;
            candidate.last_use = ++clock_;
            *snapshot = &candidate;
            return match.n_pages - up;
        }
    }
    return usable;
}

void KvSpace::reuse(KvSequence &sequence, std::span<const std::int32_t> tokens) {
    if (tokens.empty()) return;
    const PrefixCache::Match match = cache_.find(tokens.first(tokens.size() - 1));
    const Snapshot *snapshot = nullptr;
    const std::uint32_t n_pages = usable_pages(sequence, match, &snapshot);
    const std::uint32_t n_tokens = n_pages * kPageTokens;
    if (n_tokens <= sequence.n_tokens) return;
    ++counts_.hits;
    counts_.hit_tokens += n_tokens - sequence.n_tokens;

    // What the sequence has of its own is the same; sharing it all is simplest.
    truncate(sequence, 0);
    sequence.full_begin = 0;
    cached_pages_.resize(n_pages);
    std::uint32_t node = cache_.ancestor(match.node, match.n_pages - n_pages);
    for (std::uint32_t i = n_pages; i-- > 0; node = cache_.ancestor(node, 1)) {
        cached_pages_[i] = cache_.page(node);
        if (!cache_.has_draft(node))
            sequence.full_begin = std::max(sequence.full_begin, (i + 1) * kPageTokens);
    }
    pool_.share(sequence.pages, cached_pages_);
    sequence.n_tokens = n_tokens;
    sequence.ring_begin = n_tokens;
    if (snapshot != nullptr) {
        memory_.write_ring(sequence.ring, snapshot_data(*snapshot));
        sequence.ring_begin = n_tokens > window_ ? n_tokens - window_ : 0;
    }
    check_in_debug();
}

void KvSpace::keep(KvSequence &sequence, std::span<const std::int32_t> tokens) {
    const std::uint32_t draft_begin = sequence.drafts ? sequence.full_begin : UINT32_MAX;
    const std::size_t n_full = sequence.n_tokens / kPageTokens * kPageTokens;
    const std::uint32_t node = cache_.insert(tokens.first(n_full), sequence.pages, draft_begin);
    if (node != PrefixCache::kNone && sequence.drafts && window_ > 0) keep_ring(sequence, node);
    check_in_debug();
}

// A snapshot for the end of the node's page, where the ring still holds the whole window before it.
void KvSpace::keep_ring(const KvSequence &sequence, std::uint32_t node) {
    const std::uint32_t end = sequence.n_tokens / kPageTokens * kPageTokens;
    const std::uint32_t begin = end > window_ ? end - window_ : 0;
    if (sequence.ring_begin > begin) return;
    const auto same = std::find_if(snapshots_.begin(), snapshots_.end(),
                                   [&](const Snapshot &s) { return s.node == node; });
    const auto oldest = std::min_element(
        snapshots_.begin(), snapshots_.end(), [](const Snapshot &a, const Snapshot &b) {
            const auto rank = [](const Snapshot &s) {
                return s.node == PrefixCache::kNone ? 0 : s.last_use;
            };
            return rank(a) < rank(b);
        });
    Snapshot &snapshot = same != snapshots_.end() ? *same : *oldest;
    snapshot = {node, ++clock_};
    memory_.read_ring(sequence.ring, snapshot_data(snapshot));
}

void KvSpace::fork(const KvSequence &sequence, KvSequence &copy) {
    const std::uint32_t n_full = sequence.n_tokens / kPageTokens;
    pool_.share(copy.pages, std::span(sequence.pages).first(n_full));
    try {
        if (sequence.n_tokens % kPageTokens != 0) {
            make_room(1, sequence.n_tokens);
            pool_.grow(copy.pages, 1);
            memory_.copy_page(sequence.pages[n_full], copy.pages[n_full]);
        }
    } catch (...) {
        pool_.shrink(copy.pages, 0);
        throw;
    }
    copy.n_tokens = sequence.n_tokens;
    copy.full_begin = sequence.drafts ? sequence.full_begin : sequence.n_tokens;
    copy.ring_begin = sequence.drafts ? sequence.ring_begin : sequence.n_tokens;
    if (sequence.drafts && copy.drafts) memory_.copy_ring(sequence.ring, copy.ring);
    check_in_debug();
}

bool KvSpace::is_fragmented() const {
    std::size_t n_pages = 0, n_runs = 0;
    for (const BlockTable *table : tables_) {
        n_pages += table->size();
        n_runs += count_runs(*table);
    }
    return moved_ && n_runs > tables_.size() &&
           static_cast<double>(n_pages) < kShortRun * static_cast<double>(n_runs);
}

bool KvSpace::defragment(double seconds) {
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    cached_pages_.clear();
    cache_.collect_pages(cached_pages_);
    plan_.make(pool_, tables_, cached_pages_);
    DefragPlan::Move move;
    bool done = false;
    do {
        done = !plan_.next(pool_, move);
        if (done) break;
        memory_.copy_page(move.from, move.to);
        pool_.relocate(move.from, move.to, tables_);
        cache_.relocate(move.from, move.to);
        plan_.moved(move);
        ++counts_.pages_moved;
    } while (elapsed() < seconds);
    counts_.move_seconds += elapsed();
    if (done) moved_ = false;
    check_in_debug();
    return done;
}

KvStats KvSpace::stats() const {
    KvStats stats = counts_;
    stats.n_pages = pool_.n_pages();
    stats.n_free = pool_.n_free();
    stats.n_cached = cache_.n_nodes();
    stats.n_evictable = cache_.n_evictable();
    for (const BlockTable *table : tables_) {
        stats.n_sequences += !table->empty();
        stats.n_runs += count_runs(*table);
        stats.n_used += static_cast<std::uint32_t>(table->size());
    }
    return stats;
}

void KvSpace::check() const {
    std::vector<std::uint32_t> cached;
    cache_.collect_pages(cached);
    KIMI_CHECK(cached.size() == cache_.n_nodes());
    pool_.check(tables_, cached);
    for (const KvSequence *sequence : sequences_) {
        KIMI_CHECK(sequence->pages.size() >= pages_for(sequence->n_tokens));
        KIMI_CHECK(sequence->full_begin <= sequence->n_tokens &&
                   sequence->ring_begin <= sequence->n_tokens);
    }
}

void KvSpace::check_in_debug() const {
#ifdef KIMI_DEBUG_CHECKS
    try {
        check();
    } catch (const std::bad_alloc &) {
        // No memory for the check.
    }
#endif
}

}  // namespace kimi
