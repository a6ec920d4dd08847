// How fast this machine reads memory.
#pragma once

namespace kimi::bench {

// GB/s of a plain sum over an array that no cache holds, all threads together: the best of several
// passes.
double read_bandwidth(unsigned n_threads);

}  // namespace kimi::bench
