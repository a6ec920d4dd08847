// What this machine can do at best, measured.
#pragma once

namespace kimi::bench {

// GB/s of a plain sum over an array that no cache holds, all threads together: the best of several
// passes.
double read_bandwidth(unsigned n_threads);

// 1e9 fused multiply-adds per second on registers, fp32, all threads together.
double fma_rate(unsigned n_threads);

}  // namespace kimi::bench
