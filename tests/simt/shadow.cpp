#include "tests/simt/shadow.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tests/simt/block.h"

namespace kimi::simt::host {
namespace {

// Whether n cells (1, 2, 4 or 8) are the same.
inline bool all_equal(const std::uint32_t *cells, unsigned n) {
    std::uint64_t two[4];
    const std::uint64_t pair = std::uint64_t{cells[0]} << 32 | cells[0];
    switch (n) {
        case 8:
            std::memcpy(two, cells, 32);
            return ((two[0] ^ pair) | (two[1] ^ pair) | (two[2] ^ pair) | (two[3] ^ pair)) == 0;
        case 4:
            std::memcpy(two, cells, 16);
            return ((two[0] ^ pair) | (two[1] ^ pair)) == 0;
        case 2:
            std::memcpy(two, cells, 8);
            return two[0] == pair;
        default:
            return true;
    }
}

inline bool all_written(const std::uint32_t *cells, unsigned n) {
    bool all = true;
    for (unsigned i = 0; i < n; ++i) all &= cells[i] != 0;
    return all;
}

inline void fill(std::uint32_t *cells, unsigned n, std::uint32_t value) {
    const std::uint64_t pair = std::uint64_t{value} << 32 | value;
    const std::uint64_t four[4] = {pair, pair, pair, pair};
    switch (n) {
        case 8:
            std::memcpy(cells, four, 32);
            break;
        case 4:
            std::memcpy(cells, four, 16);
            break;
        case 2:
            std::memcpy(cells, four, 8);
            break;
        default:
            *cells = value;
    }
}

std::string thread_name(const Thread &t) {
    return cat("thread (", t.position.x, ',', t.position.y, ',', t.position.z, ')');
}

}  // namespace

void Shadow::reset(Block &block, std::size_t bytes) {
    block_ = &block;
    order_ = &block.order();
    written_.clear();
    readers_.clear();
    sets_.clear();
    if (block.checks_races()) transitions_.fill({});
    first_set_ = 0;
    extend(bytes);
}

void Shadow::extend(std::size_t bytes) {
    written_.resize(bytes / kCellBytes, 0);
    readers_.resize(bytes / kCellBytes, 0);
    write_site_.resize(bytes / kSiteBytes);
    read_site_.resize(bytes / kSiteBytes);
}

void Shadow::forget() {
    const Cell ordered = pack(0, 1);
    for (Cell &w : written_) {
        if (w != 0 && (w & kIsAsync) == 0) w = ordered;
    }
    std::fill(readers_.begin(), readers_.end(), 0);
    drop_sets();
}

// ---- accesses

void Shadow::read(Thread &thread, std::uint32_t offset, unsigned bytes, Site site) {
    const Range range = cells(offset, bytes);
    if (!block_->checks_races() && all_written(&written_[range.first], range.n)) return;
    check_reads(thread, range, false, site);
    if (block_->checks_races()) {
        add_readers(thread, range, pack(thread.index, thread.stamp), site);
    }
}

void Shadow::read_row(Thread &thread, std::uint32_t offset, Site site) {
    const Range range = cells(offset, 16);
    check_reads(thread, range, true, site);
    if (block_->checks_races()) {
        add_readers(thread, range, pack(kMaxThreads + thread.warp->index, thread.stamp), site);
    }
}

void Shadow::write(Thread &thread, std::uint32_t offset, unsigned bytes, Site site) {
    overwrite(thread, offset, bytes, pack(thread.index, thread.stamp), site);
}

void Shadow::atomic(Thread &thread, std::uint32_t offset, unsigned bytes, bool reads, bool writes,
                    Site site) {
    const bool races = block_->checks_races();
    if (races) order_->synchronise_at(thread, offset);
    if (reads) {
        const Range range = cells(offset, bytes);
        for (unsigned i = 0; i < range.n; ++i) {
            const Cell w = written_[range.first + i];
            if ((w & kIsAtomic) != 0 && (w & kIsAsync) == 0) continue;
            check_read(thread, w, offset + i * kCellBytes, false, site);
        }
    }
    // The access itself belongs to what was released.
    const Stamp stamp = thread.stamp - (races ? 1 : 0);
    if (writes) overwrite(thread, offset, bytes, pack(thread.index, stamp) | kIsAtomic, site);
}

void Shadow::write_async(Thread &thread, std::uint32_t offset, unsigned bytes, Site site) {
    const Cell cell = block_->checks_races() ? pack(thread.index, thread.async.open) | kIsAsync
                                             : pack(thread.index, thread.stamp);
    overwrite(thread, offset, bytes, cell, site);
}

void Shadow::write_bulk(Thread &thread, unsigned agent, Stamp stamp, std::uint32_t offset,
                        std::uint32_t bytes, Site site) {
    constexpr unsigned kStep = 16;
    const Cell cell = pack(kMaxThreads + agent, stamp);
    for (std::uint32_t done = 0; done < bytes; done += kStep) {
        overwrite(thread, offset + done, kStep, cell, site);
    }
}

void Shadow::overwrite(Thread &thread, std::uint32_t offset, unsigned bytes, Cell cell, Site site) {
    const Range range = cells(offset, bytes);
    Cell *w = &written_[range.first];
    Cell *r = &readers_[range.first];
    if (block_->checks_races()) {
        const bool is_byte = bytes < kCellBytes;
        const unsigned step_w = all_equal(w, range.n) ? range.n : 1;
        for (unsigned i = 0; i < range.n; i += step_w) {
            check_overwrite(thread, w[i], cell, is_byte, offset + i * kCellBytes, site);
        }
        const unsigned step_r = all_equal(r, range.n) ? range.n : 1;
        for (unsigned i = 0; i < range.n; i += step_r) {
            if (r[i] != 0 && !is_byte) check_readers(thread, r[i], offset + i * kCellBytes, site);
        }
        fill(r, range.n, 0);
        write_site_[offset / kSiteBytes] = Access::pack(site);
    }
    fill(w, range.n, cell);
}

// ---- checks

void Shadow::check_reads(const Thread &thread, Range range, bool whole_warp, Site site) {
    Cell *w = &written_[range.first];
    const unsigned step = all_equal(w, range.n) ? range.n : 1;
    for (unsigned i = 0; i < range.n; i += step) {
        const auto offset = static_cast<std::uint32_t>((range.first + i) * kCellBytes);
        const Cell keep = check_read(thread, w[i], offset, whole_warp, site);
        if (keep != w[i]) fill(w + i, step, keep);
    }
}

Shadow::Cell Shadow::check_read(const Thread &thread, Cell written, std::uint32_t offset,
                                bool whole_warp, Site site) const {
    if (written == 0) {
        block_->fault(thread, FaultKind::kUnwrittenShared, site, {}, "(shared)", offset);
    }
    if (!block_->checks_races()) return written;
    const unsigned writer = who_of(written);
    Stamp stamp = stamp_of(written);
    Cell keep = written;
    if ((written & kIsAsync) != 0) {
        // Once it is waited for, a cp.async is a write like others.
        stamp = async_stamp(thread, written, offset, site);
        keep = pack(writer, stamp);
    }
    const bool ordered = whole_warp ? order_->before_warp(writer, stamp, *thread.warp)
                                    : order_->before(writer, stamp, thread);
    if (ordered) return keep;
    if (writer >= kMaxThreads) {
        block_->fault(thread, FaultKind::kAsyncCopy, site,
                      "read before the mbarrier of the bulk copy was waited for", "(shared)",
                      offset);
    }
    race(thread, whole_warp ? "read by the whole warp" : "read", written, true, offset, site);
}

// When the thread that started a cp.async waited for it.
Stamp Shadow::async_stamp(const Thread &thread, Cell written, std::uint32_t offset,
                          Site site) const {
    const AsyncGroups &groups = block_->thread(who_of(written)).async;
    const std::uint32_t group = stamp_of(written);
    if (group > groups.complete) {
        block_->fault(thread, FaultKind::kAsyncCopy, site,
                      cat("destination of a cp.async that ",
                          thread_name(block_->thread(who_of(written))), " has not waited for"),
                      "(shared)", offset);
    }
    if (group + AsyncGroups::kRemembered <= groups.complete) return 1;
    return groups.waited_at[group % AsyncGroups::kRemembered];
}

void Shadow::check_overwrite(const Thread &thread, Cell written, Cell by, bool is_byte,
                             std::uint32_t offset, Site site) const {
    if (written == 0) return;
    if ((written & by & kIsAtomic) != 0 && (written & kIsAsync) == 0) return;
    Stamp stamp = stamp_of(written);
    if ((written & kIsAsync) != 0) stamp = async_stamp(thread, written, offset, site);
    if (order_->before(who_of(written), stamp, thread)) return;
    if (who_of(written) >= kMaxThreads) {
        block_->fault(thread, FaultKind::kAsyncCopy, site,
                      "written before the mbarrier of the bulk copy was waited for", "(shared)",
                      offset);
    }
    if (!is_byte) race(thread, "written", written, true, offset, site);
}

bool Shadow::reader_before(Cell reader, const Thread &thread) const {
    const unsigned who = who_of(reader);
    return who < kMaxThreads ? order_->before(who, stamp_of(reader), thread)
                             : order_->group_before(who - kMaxThreads, stamp_of(reader), thread);
}

void Shadow::check_readers(const Thread &thread, Cell readers, std::uint32_t offset,
                           Site site) const {
    if ((readers & kIsSet) == 0) {
        if (!reader_before(readers, thread)) race(thread, "written", readers, false, offset, site);
        return;
    }
    const ReadSet *set = set_of(readers);
    for (unsigned i = 0; set != nullptr && i < set->n; ++i) {
        if (!reader_before(set->readers[i], thread)) {
            race(thread, "written", set->readers[i], false, offset, site);
        }
    }
}

void Shadow::race(const Thread &thread, const char *what, Cell other, bool other_wrote,
                  std::uint32_t offset, Site site) const {
    const unsigned who = who_of(other);
    const std::string name = who < kMaxThreads ? thread_name(block_->thread(who))
                                               : cat("lanes of warp ", who - kMaxThreads);
    const Site there = unpack_site((other_wrote ? write_site_ : read_site_)[offset / kSiteBytes]);
    const char *verb = (other & kIsAsync) != 0 && other_wrote ? " wrote it by cp.async at "
                       : other_wrote                          ? " wrote it at "
                                                              : " read it at ";
    block_->fault(thread, FaultKind::kSharedRace, site,
                  cat(what, " without order after ", name, verb, there.file, ':', there.line),
                  "(shared)", offset);
}

// ---- readers since the last write

void Shadow::add_readers(const Thread &thread, Range range, Cell reader, Site site) {
    Cell *r = &readers_[range.first];
    const unsigned step = all_equal(r, range.n) ? range.n : 1;
    for (unsigned i = 0; i < range.n; i += step) {
        const Cell now = r[i] == reader ? reader : with_reader(thread, r[i], reader);
        if (now != r[i]) fill(r + i, step, now);
    }
    read_site_[range.first * kCellBytes / kSiteBytes] = Access::pack(site);
}

unsigned Shadow::warp_of(Cell reader) {
    const unsigned who = who_of(reader);
    return who < kMaxThreads ? who / kWarpSize : who - kMaxThreads;
}

// One reader that stands for both, or 0.
Shadow::Cell Shadow::joined(Cell a, Cell b) {
    if (who_of(a) == who_of(b)) return stamp_of(a) > stamp_of(b) ? a : b;
    if (warp_of(a) != warp_of(b) || stamp_of(a) != stamp_of(b)) return 0;
    return pack(kMaxThreads + warp_of(a), stamp_of(a));
}

Shadow::Cell Shadow::with_reader(const Thread &thread, Cell readers, Cell reader) {
    if (readers == 0) return reader;
    if ((readers & kIsSet) != 0) return with_reader_in_set(thread, readers, reader);
    // Who is ordered after this read is also ordered after an older one that is ordered before it.
    if (reader_before(readers, thread)) return reader;
    if (const Cell both = joined(readers, reader)) return both;
    Transition &known = transition(readers, reader);
    if (known.readers == readers && known.reader == reader && set_of(known.to) != nullptr) {
        return known.to;
    }
    ReadSet set;
    set.add(readers);
    set.add(reader);
    known = {readers, reader, 0, add_set(set)};
    return known.to;
}

Shadow::Cell Shadow::with_reader_in_set(const Thread &thread, Cell readers, Cell reader) {
    const ReadSet *old = set_of(readers);
    if (old == nullptr) return reader;
    const Stamp synced = thread.warp->synced;
    Transition &known = transition(readers, reader);
    if (known.readers == readers && known.reader == reader && known.synced == synced) {
        return known.to;
    }
    ReadSet set;
    Cell own = reader;
    for (unsigned i = 0; i < old->n; ++i) {
        const Cell other = old->readers[i];
        if (warp_of(other) == warp_of(reader)) {
            if (stamp_of(other) <= synced) continue;  // before this read
            if (const Cell both = joined(other, own)) {
                own = both;
                continue;
            }
        }
        set.add(other);
    }
    set.add(own);
    const bool same = set.n == old->n && std::is_permutation(set.readers.begin(), set.readers.end(),
                                                             old->readers.begin());
    known = {readers, reader, synced, same ? readers : add_set(set)};
    return known.to;
}

Shadow::Transition &Shadow::transition(Cell readers, Cell reader) {
    const std::uint64_t key = std::uint64_t{readers} << 32 | reader;
    return transitions_[(key * 0x9e3779b97f4a7c15U) >> 54];
}

Shadow::Cell Shadow::add_set(const ReadSet &set) {
    if (sets_.size() == kMaxSets) drop_sets();
    sets_.push_back(set);
    return (first_set_ + static_cast<Cell>(sets_.size() - 1)) | kIsSet;
}

const Shadow::ReadSet *Shadow::set_of(Cell readers) const {
    const Cell number = readers & ~kIsSet;
    return number < first_set_ ? nullptr : &sets_[number - first_set_];
}

void Shadow::drop_sets() {
    first_set_ += static_cast<Cell>(sets_.size());
    sets_.clear();
}

}  // namespace kimi::simt::host
