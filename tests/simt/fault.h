// What the executor finds wrong with a kernel.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/simt/types.h"
#include "tests/simt/site.h"

namespace kimi::simt::host {

enum class FaultKind : std::uint8_t {
    kOutOfBounds,        // outside the buffer, or outside the block's shared memory
    kMisaligned,         // address not a multiple of the access size
    kUnwrittenGlobal,    // read of global memory that nobody wrote
    kUnwrittenShared,    // read of shared memory that nobody wrote
    kUnwrittenOutput,    // a declared output was not written completely
    kReadOnlyWritten,    // load_readonly of memory that the same launch wrote
    kWriteOverlap,       // two blocks wrote the same bytes
    kUnordered,          // two streams used the same bytes, one wrote, and nothing orders them
    kSharedRace,         // conflicting accesses to shared memory, not ordered
    kAsyncCopy,          // destination of a copy touched before the copy was waited for
    kBarrierDivergence,  // threads exited, or wait at different barriers or with different counts
    kMissingLanes,       // a warp-collective operation that not all named lanes take part in
    kDeadlock,           // every thread waits
    kHang,               // every thread polls and nothing changes
    kBadLaunch,          // a launch that CUDA refuses
    kBadArgument,        // an instruction with operands that PTX does not allow
};
const char *name_of(FaultKind kind);

struct Fault {
    FaultKind kind;
    std::string kernel;
    Dim3 block, thread;
    std::uint64_t block_number = 0;  // blocks in launch order, for sorting
    std::string buffer;              // "" for shared memory or none
    std::uint64_t offset = 0;        // bytes from the start of the buffer or of shared memory
    Site site;
    std::string detail;

    // One line with everything above.
    std::string text() const;
};

// Thrown through a kernel's frames to abandon its block.
struct Abandon {};

}  // namespace kimi::simt::host
