#include "text/unicode.h"

#include <iterator>

#include "text/unicode_tables.h"

namespace kimi {
namespace {

constexpr std::size_t kRuns = std::size(kClassRuns);

// One past the last character of a run.
constexpr std::uint32_t run_end(std::size_t run) {
    return run + 1 < kRuns ? kClassRuns[run + 1] >> 8 : 0x110000;
}

constexpr ClassTable make_table() {
    ClassTable table;
    std::array<std::uint16_t, 256> uniform{};  // class -> its block + 1
    std::uint16_t used = 0;
    std::size_t run = 0;
    for (std::uint32_t b = 0; b < table.block.size(); ++b) {
        const std::uint32_t first = b * ClassTable::kBlock;
        const std::uint32_t end = first + ClassTable::kBlock;
        const std::uint8_t bits = kClassRuns[run] & 0xFF;
        const bool whole = run_end(run) >= end;
        if (whole && uniform[bits] != 0) {
            table.block[b] = uniform[bits] - 1;
        } else {
            table.block[b] = used;
            for (std::uint32_t c = first; c < end; ++c) {
                if (c == run_end(run)) ++run;
                table.classes.at(used)[c - first] = kClassRuns[run] & 0xFF;
            }
            ++used;
            if (whole) uniform[bits] = used;
        }
        if (run_end(run) == end && run + 1 < kRuns) ++run;
    }
    return table;
}

}  // namespace

constinit const ClassTable kClassTable = make_table();

}  // namespace kimi
