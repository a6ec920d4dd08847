// What is known of every byte of a block's shared memory: who wrote it, who has read it since.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/simt/order.h"
#include "tests/simt/site.h"

namespace kimi::simt::host {

// Accesses are checked in cells of 2 bytes. Threads that write different single bytes of one cell
// are not told apart: between single-byte accesses races go unseen.
class Shadow {
  public:
    void reset(Block &block, std::size_t bytes);
    // More memory, unwritten.
    void extend(std::size_t bytes);

    // All offsets are multiples of the access size, and in bounds.
    void read(Thread &thread, std::uint32_t offset, unsigned bytes, Site site);
    void write(Thread &thread, std::uint32_t offset, unsigned bytes, Site site);
    // Atomic and volatile accesses do not race with each other, and order what is around them.
    void atomic(Thread &thread, std::uint32_t offset, unsigned bytes, bool reads, bool writes,
                Site site);
    // All lanes of the thread's warp read 16 bytes, whose address this lane named. Their stamps are
    // equal.
    void read_row(Thread &thread, std::uint32_t offset, Site site);
    // Destination of the thread's cp.async, in its open group.
    void write_async(Thread &thread, std::uint32_t offset, unsigned bytes, Site site);
    // Destination of a bulk copy by an agent, started by the thread.
    void write_bulk(Thread &thread, unsigned agent, Stamp stamp, std::uint32_t offset,
                    std::uint32_t bytes, Site site);

    // Everything so far is ordered before what follows.
    void block_barrier() { drop_sets(); }
    // The same, and stamps start again.
    void forget();

  private:
    // A write cell: 0 is never written; else who wrote (11 bits: thread, or kMaxThreads + agent),
    // the stamp or the cp.async group (19 bits), and two flags. A read cell: 0 is nobody since the
    // last write; else the same, where who can be kMaxThreads + w: several lanes of warp w; or the
    // number of a set of such cells.
    using Cell = std::uint32_t;
    static constexpr unsigned kCellBytes = 2;
    static constexpr unsigned kSiteBytes = 16;
    static constexpr Cell kIsAsync = 1U << 31, kIsAtomic = 1U << 30, kIsSet = 1U << 31;
    static constexpr std::size_t kMaxSets = 1U << 16;

    static Cell pack(unsigned who, Stamp stamp) { return stamp << 11 | who; }
    static unsigned who_of(Cell cell) { return cell & 0x7ffU; }
    static Stamp stamp_of(Cell cell) { return cell >> 11 & 0x7ffffU; }
    static unsigned warp_of(Cell reader);
    static Cell joined(Cell a, Cell b);

    // Readers, each a thread or several lanes of a warp with one stamp.
    struct ReadSet {
        static constexpr unsigned kMost = 47;  // more are not kept
        unsigned n = 0;
        std::array<Cell, kMost> readers{};

        void add(Cell reader) {
            if (n < kMost) readers[n++] = reader;
        }
    };

    struct Range {
        std::size_t first;
        unsigned n;
    };
    static Range cells(std::uint32_t offset, unsigned bytes) {
        return {offset / kCellBytes, bytes < kCellBytes ? 1 : bytes / kCellBytes};
    }

    void check_reads(const Thread &thread, Range range, bool whole_warp, Site site);
    // Returns the cell to keep.
    Cell check_read(const Thread &thread, Cell written, std::uint32_t offset, bool whole_warp,
                    Site site) const;
    Stamp async_stamp(const Thread &thread, Cell written, std::uint32_t offset, Site site) const;
    void overwrite(Thread &thread, std::uint32_t offset, unsigned bytes, Cell cell, Site site);
    void check_overwrite(const Thread &thread, Cell written, Cell by, bool is_byte,
                         std::uint32_t offset, Site site) const;
    bool reader_before(Cell reader, const Thread &thread) const;
    void check_readers(const Thread &thread, Cell readers, std::uint32_t offset, Site site) const;
    [[noreturn]] void race(const Thread &thread, const char *what, Cell other, bool other_wrote,
                           std::uint32_t offset, Site site) const;

    void add_readers(const Thread &thread, Range range, Cell reader, Site site);
    Cell with_reader(const Thread &thread, Cell readers, Cell reader);
    Cell with_reader_in_set(const Thread &thread, Cell readers, Cell reader);
    const ReadSet *set_of(Cell readers) const;
    struct Transition;
    Transition &transition(Cell readers, Cell reader);
    Cell add_set(const ReadSet &set);
    void drop_sets();

    Block *block_ = nullptr;
    Order *order_ = nullptr;
    std::vector<Cell> written_, readers_;
    std::vector<std::uint64_t> write_site_, read_site_;  // per 16 bytes, for messages
    // Sets are numbered on and on; older numbers than first_set_ are of readers that are ordered
    // before everything now.
    std::vector<ReadSet> sets_;
    Cell first_set_ = 0;
    // Many cells take the same steps from set to set, so they share sets.
    struct Transition {
        Cell readers = 0, reader = 0;
        Stamp synced = 0;  // of the reader's warp
        Cell to = 0;
    };
    std::array<Transition, 1024> transitions_{};
};

}  // namespace kimi::simt::host
