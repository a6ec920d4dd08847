// What the compiler made of a kernel, against its budget.
#pragma once

#include <string>

namespace kimi::test {

struct Budget {
    std::string kernel;  // part of the mangled name; every kernel of the source that has it
    unsigned threads;    // of a block
    std::size_t shared_bytes = 0;  // dynamic
    unsigned blocks_per_sm = 1;    // on sm_120
};

// No spills, at most 101,376 bytes of shared memory, and the blocks per SM that are intended,
// computed by the toolkit's occupancy header. Prints a line per kernel. Without nvcc it says so.
void check_budget(const std::string &source, const Budget &budget);

}  // namespace kimi::test
