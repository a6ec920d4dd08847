// What a launch did, counted. Tests assert on these numbers and print them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simt/site.h"

namespace kimi::simt::host {

inline constexpr unsigned kSectorBytes = 32;

// Accesses of one kind. One instruction is one access by the lanes of a warp together. A unit is a
// 32-byte sector in global memory and a wavefront (one pass over the 32 banks) in shared memory.
struct Traffic {
    std::uint64_t instructions = 0;
    std::uint64_t bytes = 0;  // asked for, summed over lanes
    std::uint64_t units = 0;
    std::uint64_t ideal = 0;  // units, if the same bytes had been asked for in the best order

    Traffic &operator+=(const Traffic &other);
    std::uint64_t excess() const { return units - ideal; }
};

enum class Op : std::uint8_t {
    kLoad,
    kStore,
    kAtomic,
    kLdmatrix,
    kAsyncCopy,  // cp.async: a load in global memory, a store in shared memory
    kBulkCopy,
};
inline constexpr std::size_t kOps = 6;
const char *name_of(Op op);

// One source line's accesses to one buffer ("" is shared memory) with one width.
struct SiteTraffic {
    Site site;
    std::string buffer;
    Op op;
    unsigned access_bytes;
    Traffic traffic;
};

struct BufferTraffic {
    std::string name;
    Traffic loads, stores, atomics;  // copies to shared memory are loads
    // Touched at least once: what has to move if nothing is read twice from DRAM. Only for a launch
    // that runs alone.
    std::uint64_t distinct_bytes_read = 0, distinct_bytes_written = 0;
    std::uint64_t distinct_sectors_read = 0, distinct_sectors_written = 0;
};

// Counted once per warp.
struct Instructions {
    std::uint64_t mma_bf16 = 0, mma_f16 = 0, mma_e4m3 = 0;
    std::uint64_t ldmatrix = 0;  // of any width
    std::uint64_t shuffles = 0, votes = 0, warp_barriers = 0;
    std::uint64_t block_barriers = 0;  // once per barrier, not per warp

    Instructions &operator+=(const Instructions &other);
    std::uint64_t mma() const { return mma_bf16 + mma_f16 + mma_e4m3; }
};

struct Counters {
    Instructions instructions;
    std::array<Traffic, kOps> shared;    // by Op
    std::vector<BufferTraffic> buffers;  // sorted by name
    std::vector<SiteTraffic> sites;      // sorted by file, line, buffer

    // The buffer with this name; all zero if the launch did not touch one.
    BufferTraffic buffer(const std::string &name) const;
    Traffic global_loads() const;
    Traffic global_stores() const;
    Traffic shared_total() const;
    std::uint64_t bank_conflicts() const { return shared_total().excess(); }
    // Tables for people.
    std::string text() const;
    std::string sites_text() const;
};

}  // namespace kimi::simt::host
