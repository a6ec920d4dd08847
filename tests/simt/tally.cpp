#include "tests/simt/tally.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>
#include <tuple>

namespace kimi::simt::host {
namespace {

constexpr unsigned kBanks = 32;
constexpr unsigned kBankBytes = 4;

struct Spread {
    unsigned sectors = 0, addresses = 0;
    std::uint64_t low = 0, high = 0;
};

Spread count_ascending(const std::uint64_t *address, unsigned n) {
    Spread d{1, 1, address[0], address[n - 1]};
    for (unsigned i = 1; i < n; ++i) {
        d.addresses += address[i] != address[i - 1];
        d.sectors += address[i] / kSectorBytes != address[i - 1] / kSectorBytes;
    }
    return d;
}

Spread spread_of(const WarpAccess &access) {
    const std::uint64_t *begin = access.address.data();
    if (std::is_sorted(begin, begin + access.n)) return count_ascending(begin, access.n);
    std::array<std::uint64_t, kWarpSize> sorted = access.address;
    std::sort(sorted.begin(), sorted.begin() + access.n);
    return count_ascending(sorted.data(), access.n);
}

// Passes over the banks that accesses of `unit` bytes need: the largest number of different units
// in one group of banks. An aligned access covers whole groups of its own width.
unsigned bank_degree(const std::uint64_t *address, unsigned n, unsigned unit) {
    const int shift = std::countr_zero(unit);
    const std::uint32_t last_group = (kBanks * kBankBytes >> shift) - 1;
    std::array<std::uint32_t, kWarpSize> units;
    std::uint32_t taken = 0;
    for (unsigned i = 0; i < n; ++i) {
        units[i] = static_cast<std::uint32_t>(address[i] >> shift);
        taken |= 1U << (units[i] & last_group);
    }
    if (static_cast<unsigned>(std::popcount(taken)) == n) return 1;
    std::sort(units.begin(), units.begin() + n);
    std::array<std::uint8_t, kBanks> in_group{};
    unsigned degree = 0;
    for (unsigned i = 0; i < n; ++i) {
        if (i > 0 && units[i] == units[i - 1]) continue;
        degree = std::max<unsigned>(degree, ++in_group[units[i] & last_group]);
    }
    return degree;
}

}  // namespace

Wavefronts wavefronts(const WarpAccess &access, unsigned bytes) {
    const unsigned unit = std::max(kBankBytes, bytes);
    const int shift = std::countr_zero(kBanks * kBankBytes / unit);  // lanes served together
    Wavefronts total;
    for (unsigned i = 0; i < access.n;) {
        const int phase = access.lane[i] >> shift;
        unsigned end = i;
        while (end < access.n && access.lane[end] >> shift == phase) ++end;
        total.needed += bank_degree(access.address.data() + i, end - i, unit);
        total.ideal += 1;
        i = end;
    }
    return total;
}

Site unpack_site(std::uint64_t packed) {
    return {reinterpret_cast<const char *>(packed >> 16), static_cast<unsigned>(packed & 0xffffU)};
}

std::size_t Tally::Hash::operator()(const Key &key) const {
    std::uint64_t h = key.site ^ reinterpret_cast<std::uintptr_t>(key.memory) * 31 ^
                      std::uint64_t{key.kind} << 20;
    h *= 0x9e3779b97f4a7c15U;
    return h ^ h >> 32;
}

Tally::Entry &Tally::entry(const Key &key) {
    auto &[last, found] = recent_[Hash()(key) % recent_.size()];
    if (found == nullptr || !(last == key)) {
        last = key;
        found = &by_site_[key];
    }
    return *found;
}

void Tally::add_global(const Key &key, const WarpAccess &access) {
    const unsigned bytes = key.kind >> 8;
    const Spread spread = spread_of(access);
    auto &[t, range] = entry(key);
    range.low = std::min(range.low, spread.low);
    range.high = std::max(range.high, spread.high + bytes);
    t.instructions += 1;
    t.bytes += std::uint64_t{access.n} * bytes;
    t.units += spread.sectors;
    t.ideal += (spread.addresses * bytes + kSectorBytes - 1) / kSectorBytes;
}

void Tally::add_shared(const Key &key, const WarpAccess &access) {
    const unsigned bytes = key.kind >> 8;
    const Wavefronts w = wavefronts(access, bytes);
    Traffic &t = entry(key).traffic;
    t.instructions += 1;
    t.bytes += std::uint64_t{access.n} * bytes;
    t.units += w.needed;
    t.ideal += w.ideal;
}

void Tally::add(const Access &first, const WarpAccess &access) {
    const Key key{first.site, first.memory, first.kind()};
    if (first.memory == nullptr) {
        add_shared(key, access);
    } else {
        add_global(key, access);
    }
}

void Tally::add_ldmatrix(Site site, const WarpAccess &rows) {
    ++instructions.ldmatrix;
    const auto kind = static_cast<std::uint16_t>(Access::pack(0, 16, Op::kLdmatrix));
    add_shared({Access::pack(site), nullptr, kind}, rows);
}

void Tally::add_bulk_copy(Site site, const Memory &source, std::uint64_t address,
                          std::uint64_t bytes) {
    auto &[t, range] =
        entry({Access::pack(site), &source, static_cast<std::uint16_t>(Op::kBulkCopy)});
    range.low = std::min(range.low, address);
    range.high = std::max(range.high, address + bytes);
    t.instructions += 1;
    t.bytes += bytes;
    t.units += (address + bytes - 1) / kSectorBytes - address / kSectorBytes + 1;
    t.ideal += (bytes + kSectorBytes - 1) / kSectorBytes;
}

void Tally::add_log(const Log &log) {
    const std::uint32_t longest = *std::max_element(log.counts.begin(), log.counts.end());
    for (std::uint32_t k = 0; k < longest; ++k) {
        const Access *first = nullptr;
        WarpAccess access;
        for (unsigned lane = 0; lane < kWarpSize; ++lane) {
            if (log.counts[lane] <= k) continue;
            const Access &a = log.lanes[lane][k];
            if (first == nullptr) first = &a;
            if (a.site != first->site || a.memory != first->memory || a.kind() != first->kind()) {
                return add_divergent(log, k);
            }
            access.add(lane, a.address());
        }
        add(*first, access);
    }
}

void Tally::add_divergent(const Log &log, std::uint32_t from) {
    // (site, kind, how often executed before by this lane, buffer)
    using Instruction = std::tuple<std::uint64_t, std::uint16_t, std::uint32_t, const Memory *>;
    std::map<Instruction, std::pair<Access, WarpAccess>> groups;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        std::map<std::pair<std::uint64_t, std::uint16_t>, std::uint32_t> times;
        for (std::uint32_t k = from; k < log.counts[lane]; ++k) {
            const Access &a = log.lanes[lane][k];
            const std::uint32_t time = times[{a.site, a.kind()}]++;
            auto &[first, access] = groups[{a.site, a.kind(), time, a.memory}];
            first = a;
            access.add(lane, a.address());
        }
    }
    for (const auto &[key, group] : groups) add(group.first, group.second);
}

namespace {

BufferTraffic &buffer_of(Counters &counters, const std::string &name) {
    for (BufferTraffic &b : counters.buffers) {
        if (b.name == name) return b;
    }
    BufferTraffic &fresh = counters.buffers.emplace_back();
    fresh.name = name;
    return fresh;
}

SiteTraffic &site_of(Counters &counters, const SiteTraffic &wanted) {
    for (SiteTraffic &s : counters.sites) {
        if (s.site == wanted.site && s.buffer == wanted.buffer && s.op == wanted.op &&
            s.access_bytes == wanted.access_bytes) {
            return s;
        }
    }
    return counters.sites.emplace_back(wanted);
}

}  // namespace

std::unordered_map<const Memory *, Tally::Range> Tally::touched() const {
    std::unordered_map<const Memory *, Range> all;
    for (const auto &[key, entry] : by_site_) {
        if (key.memory == nullptr) continue;
        Range &range = all[key.memory];
        range.low = std::min(range.low, entry.range.low);
        range.high = std::max(range.high, entry.range.high);
    }
    return all;
}

void Tally::add_to(Counters &counters) const {
    counters.instructions += instructions;
    for (const auto &[key, entry] : by_site_) {
        const Traffic &traffic = entry.traffic;
        const auto op = static_cast<Op>(key.kind & 0xffU);
        const std::string buffer = key.memory == nullptr ? "" : key.memory->name;
        site_of(counters,
                {unpack_site(key.site), buffer, op, static_cast<unsigned>(key.kind >> 8), {}})
            .traffic += traffic;
        if (key.memory == nullptr) {
            counters.shared[static_cast<std::size_t>(op)] += traffic;
            continue;
        }
        BufferTraffic &b = buffer_of(counters, buffer);
        (op == Op::kStore ? b.stores : op == Op::kAtomic ? b.atomics : b.loads) += traffic;
    }
    std::sort(counters.buffers.begin(), counters.buffers.end(),
              [](const BufferTraffic &a, const BufferTraffic &b) { return a.name < b.name; });
    std::sort(counters.sites.begin(), counters.sites.end(),
              [](const SiteTraffic &a, const SiteTraffic &b) {
                  return std::tuple(std::string_view(a.site.file), a.site.line,
                                    std::string_view(a.buffer), a.op, a.access_bytes) <
                         std::tuple(std::string_view(b.site.file), b.site.line,
                                    std::string_view(b.buffer), b.op, b.access_bytes);
              });
}

}  // namespace kimi::simt::host
