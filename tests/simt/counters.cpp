#include "tests/simt/counters.h"

#include <cstdio>

#include "base/error.h"

namespace kimi::simt::host {

Traffic &Traffic::operator+=(const Traffic &other) {
    instructions += other.instructions;
    bytes += other.bytes;
    units += other.units;
    ideal += other.ideal;
    return *this;
}

Instructions &Instructions::operator+=(const Instructions &other) {
    mma_bf16 += other.mma_bf16;
    mma_f16 += other.mma_f16;
    mma_e4m3 += other.mma_e4m3;
    ldmatrix += other.ldmatrix;
    shuffles += other.shuffles;
    votes += other.votes;
    warp_barriers += other.warp_barriers;
    block_barriers += other.block_barriers;
    return *this;
}

const char *name_of(Op op) {
    switch (op) {
        case Op::kLoad:
            return "load";
        case Op::kStore:
            return "store";
        case Op::kAtomic:
            return "atomic";
        case Op::kLdmatrix:
            return "ldmatrix";
        case Op::kAsyncCopy:
            return "cp.async";
        case Op::kBulkCopy:
            return "cp.async.bulk";
    }
    return "?";
}

BufferTraffic Counters::buffer(const std::string &name) const {
    for (const BufferTraffic &b : buffers) {
        if (b.name == name) return b;
    }
    BufferTraffic none;
    none.name = name;
    return none;
}

Traffic Counters::global_loads() const {
    Traffic sum;
    for (const BufferTraffic &b : buffers) sum += b.loads;
    return sum;
}

Traffic Counters::global_stores() const {
    Traffic sum;
    for (const BufferTraffic &b : buffers) sum += b.stores;
    return sum;
}

Traffic Counters::shared_total() const {
    Traffic sum;
    for (const Traffic &t : shared) sum += t;
    return sum;
}

namespace {

std::string row(const std::string &name, const char *what, const Traffic &t, const char *unit) {
    char line[200];
    std::snprintf(line, sizeof line, "  %-16s %-13s %10llu instr %12llu B %10llu %s (ideal %llu)",
                  name.c_str(), what, static_cast<unsigned long long>(t.instructions),
                  static_cast<unsigned long long>(t.bytes),
                  static_cast<unsigned long long>(t.units), unit,
                  static_cast<unsigned long long>(t.ideal));
    return line;
}

std::string buffer_row(const std::string &name, const char *what, const Traffic &t,
                       std::uint64_t distinct) {
    if (t.instructions == 0) return "";
    const std::string line = row(name, what, t, "sectors");
    return distinct == 0 ? line + '\n' : cat(line, ", distinct ", distinct, '\n');
}

}  // namespace

std::string Counters::text() const {
    std::string out;
    for (const BufferTraffic &b : buffers) {
        out += buffer_row(b.name, "load", b.loads, b.distinct_sectors_read);
        out += buffer_row(b.name, "store", b.stores, b.distinct_sectors_written);
        out += buffer_row(b.name, "atomic", b.atomics, 0);
    }
    for (std::size_t op = 0; op < kOps; ++op) {
        if (shared[op].instructions == 0) continue;
        out += row("(shared)", name_of(static_cast<Op>(op)), shared[op], "wavefronts") + '\n';
    }
    const Instructions &i = instructions;
    return cat(out, "  mma ", i.mma(), ", ldmatrix ", i.ldmatrix, ", shuffles ", i.shuffles,
               ", votes ", i.votes, ", warp barriers ", i.warp_barriers, ", block barriers ",
               i.block_barriers, '\n');
}

std::string Counters::sites_text() const {
    std::string out;
    for (const SiteTraffic &s : sites) {
        const bool is_shared = s.buffer.empty();
        out += cat(row(is_shared ? "(shared)" : s.buffer, name_of(s.op), s.traffic,
                       is_shared ? "wavefronts" : "sectors"),
                   "  ", s.access_bytes, " B at ", s.site.file, ':', s.site.line, '\n');
    }
    return out;
}

}  // namespace kimi::simt::host
