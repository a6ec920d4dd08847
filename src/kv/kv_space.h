// The KV memory of an engine: its pages and rings, who uses them, and what is kept of earlier
// sequences.
//
// Not thread-safe. Data moves on the device in call order, so every table that a pass reads was
// true when the pass was started.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/device.h"
#include "base/host_memory.h"
#include "kv/defrag.h"
#include "kv/page_pool.h"
#include "kv/prefix_cache.h"

namespace kimi {

// The KV of one sequence: where it is, and which of it the drafter has keys and values of.
struct KvSequence {
    BlockTable pages;
    std::uint32_t n_tokens = 0;  // written
    bool drafts = false;         // it has a ring, and the drafter follows it
    std::uint32_t ring = 0;
    std::uint32_t full_begin = 0,
                  ring_begin = 0;  // first token of the drafter's KV, in pages and ring
};

struct KvStats {
    std::uint32_t n_pages = 0, n_free = 0, n_cached = 0, n_evictable = 0;
    std::uint32_t n_sequences = 0, n_runs = 0,
                  n_used = 0;  // of live sequences: pages with repetition
    std::uint64_t pages_moved = 0, hits = 0, hit_tokens = 0, evicted = 0;
    double move_seconds = 0;
};

class KvSpace {
  public:
    // n_rings sequences can draft at the same time.
    KvSpace(KvMemory &memory, const DeviceLimits &limits, const HostHeap &heap = {});

    // A sequence is known from open to close; it must not move in memory meanwhile.
    void open(KvSequence &sequence, std::uint32_t max_tokens);
    void close(KvSequence &sequence);

    // Makes room to write the tokens [sequence.n_tokens, n_tokens): enough pages, none of them
    // shared. All or nothing: throws KIMI_BUSY with what is needed and what is free. `expected`
    // tokens are foreseen in all.
    void reserve(KvSequence &sequence, std::uint32_t n_tokens, std::uint64_t expected = 0);
    // Pages that reserve could still find.
    std::uint32_t n_available() const { return pool_.n_free() + cache_.n_evictable(); }
    std::uint32_t n_free() const { return pool_.n_free(); }
    // Tokens behind n_tokens no longer exist.
    void truncate(KvSequence &sequence, std::uint32_t n_tokens);
    // n more tokens are written, by target and drafter. n_drafter: by the drafter, and given up
    // behind n.
    void written(KvSequence &sequence, std::uint32_t n, std::uint32_t n_drafter);
    void written(KvSequence &sequence, std::uint32_t n) { written(sequence, n, n); }

    // Takes over what is cached of a sequence that begins with these tokens, if it is more than the
    // sequence has. Where the sequence drafts, it ends where the ring is known or can fill again,
    // so that a hit does not cost acceptance. At least one token is left to process.
    void reuse(KvSequence &sequence, std::span<const std::int32_t> tokens);
    // Keeps the full pages that are written of a sequence with these tokens, for later ones.
    void keep(KvSequence &sequence, std::span<const std::int32_t> tokens);

    // Makes `copy` a copy of `sequence`: full pages are shared, the last partial one and the ring
    // are copied. Throws KIMI_BUSY and leaves the copy empty then.
    void fork(const KvSequence &sequence, KvSequence &copy);

    // Moves pages for at most this long; true when nothing is left to move.
    bool defragment(double seconds);
    // Sequences lie in so many pieces that moving them pays.
    bool is_fragmented() const;

    KvStats stats() const;
    // Every page is free, used or cached, and the counts add up. Throws KIMI_INTERNAL.
    void check() const;

  private:
    struct Snapshot {
        std::uint32_t node = PrefixCache::kNone;  // whose end it is of
        std::uint64_t last_use = 0;
    };

    void make_room(std::uint32_t n_pages, std::uint64_t n_tokens);
    std::uint32_t usable_pages(const KvSequence &sequence, PrefixCache::Match match,
                               const Snapshot **snapshot);
    void keep_ring(const KvSequence &sequence, std::uint32_t node);
    std::byte *snapshot_data(const Snapshot &snapshot) const;
    void check_in_debug() const;

    KvMemory &memory_;
    std::uint32_t window_, ring_slots_;
    PagePool pool_;
    PrefixCache cache_;
    std::vector<std::uint32_t> free_rings_;
    std::vector<KvSequence *> sequences_;
    std::vector<Snapshot> snapshots_;
    HostMemory snapshot_memory_;  // [snapshots, ring bytes]
    std::uint64_t clock_ = 0;
    DefragPlan plan_;
    std::vector<BlockTable *> tables_;  // of sequences_
    std::vector<std::uint32_t> cached_pages_;
    bool moved_ = true;  // pages were given or taken since the last complete defragmentation
    KvStats counts_;
};

}  // namespace kimi
