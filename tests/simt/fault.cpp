#include "tests/simt/fault.h"

#include "base/error.h"

namespace kimi::simt::host {

const char *name_of(FaultKind kind) {
    switch (kind) {
        case FaultKind::kOutOfBounds:
            return "out of bounds";
        case FaultKind::kMisaligned:
            return "misaligned access";
        case FaultKind::kUnwrittenGlobal:
            return "read of unwritten global memory";
        case FaultKind::kUnwrittenShared:
            return "read of unwritten shared memory";
        case FaultKind::kUnwrittenOutput:
            return "output not written";
        case FaultKind::kReadOnlyWritten:
            return "read-only load of written memory";
        case FaultKind::kWriteOverlap:
            return "written by two blocks";
        case FaultKind::kUnordered:
            return "unordered use by two streams";
        case FaultKind::kSharedRace:
            return "shared-memory race";
        case FaultKind::kAsyncCopy:
            return "asynchronous copy not waited for";
        case FaultKind::kBarrierDivergence:
            return "barrier divergence";
        case FaultKind::kMissingLanes:
            return "warp operation with missing lanes";
        case FaultKind::kDeadlock:
            return "deadlock";
        case FaultKind::kHang:
            return "hang";
        case FaultKind::kBadLaunch:
            return "bad launch";
        case FaultKind::kBadArgument:
            return "bad argument";
    }
    return "?";
}

static std::string coordinates(const Dim3 &d) {
    return cat('(', d.x, ',', d.y, ',', d.z, ')');
}

std::string Fault::text() const {
    std::string out = cat(name_of(kind), " in ", kernel);
    if (site.line != 0) {
        out += cat(", block ", coordinates(block), " thread ", coordinates(thread), ", at ",
                   site.file, ':', site.line);
    }
    if (!buffer.empty()) out += cat(", buffer ", buffer, " at byte ", offset);
    return detail.empty() ? out : cat(out, ": ", detail);
}

}  // namespace kimi::simt::host
