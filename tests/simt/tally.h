// Turns the accesses of single lanes into warp instructions, and counts their sectors and
// wavefronts.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tests/simt/counters.h"
#include "tests/simt/memory.h"

namespace kimi::simt::host {

inline constexpr unsigned kWarpSize = 32;

// One access of one lane. Lanes run one after the other, so each keeps a log of these until the
// warp meets; accesses of different lanes with the same site that are equally often executed there
// since then are one instruction.
struct Access {
    std::uint64_t site;
    const Memory *memory;  // null: shared memory
    std::uint64_t where;   // address or shared offset << 16 | bytes << 8 | Op

    static std::uint64_t pack(Site site) {
        return reinterpret_cast<std::uintptr_t>(site.file) << 16 | (site.line & 0xffffU);
    }
    static std::uint64_t pack(std::uint64_t address, unsigned bytes, Op op) {
        return address << 16 | std::uint64_t{bytes} << 8 | static_cast<std::uint64_t>(op);
    }
    std::uint64_t address() const { return where >> 16; }
    unsigned bytes() const { return static_cast<unsigned>(where >> 8) & 0xffU; }
    std::uint16_t kind() const { return static_cast<std::uint16_t>(where); }  // bytes and Op
};
Site unpack_site(std::uint64_t packed);

// The lanes' addresses in one instruction, compact, in lane order.
struct WarpAccess {
    unsigned n = 0;
    std::array<std::uint64_t, kWarpSize> address;
    std::array<std::uint8_t, kWarpSize> lane;

    void add(unsigned from_lane, std::uint64_t at) {
        address[n] = at;
        lane[n++] = static_cast<std::uint8_t>(from_lane);
    }
};

// The counters of one OS thread.
class Tally {
  public:
    struct Log {
        std::array<const Access *, kWarpSize> lanes;
        std::array<std::uint32_t, kWarpSize> counts;
    };
    void add_log(const Log &log);
    // One 8x8 matrix after the other: n rows of 16 bytes, 8 to a wavefront at best.
    void add_ldmatrix(Site site, const WarpAccess &rows);
    void add_bulk_copy(Site site, const Memory &source, std::uint64_t address, std::uint64_t bytes);

    Instructions instructions;
    void add_to(Counters &counters) const;

    // The addresses of a buffer that were accessed.
    struct Range {
        std::uint64_t low = ~std::uint64_t{0}, high = 0;
    };
    std::unordered_map<const Memory *, Range> touched() const;

  private:
    struct Key {
        std::uint64_t site;
        const Memory *memory;
        std::uint16_t kind;
        bool operator==(const Key &) const = default;
    };
    struct Hash {
        std::size_t operator()(const Key &key) const;
    };

    struct Entry {
        Traffic traffic;
        Range range;
    };

    Entry &entry(const Key &key);
    void add_global(const Key &key, const WarpAccess &access);
    void add_shared(const Key &key, const WarpAccess &access);
    void add(const Access &first, const WarpAccess &access);
    void add_divergent(const Log &log, std::uint32_t from);

    std::unordered_map<Key, Entry, Hash> by_site_;
    std::array<std::pair<Key, Entry *>, 256> recent_{};
};

// Passes over the 32 banks of 4 bytes that the accesses need, and that they would need without
// conflicts. Hardware serves 8-byte accesses by half-warps and 16-byte accesses by quarter-warps.
struct Wavefronts {
    unsigned needed = 0, ideal = 0;
};
Wavefronts wavefronts(const WarpAccess &access, unsigned bytes);

}  // namespace kimi::simt::host
