// Kernels for tests of the stand-in for CUDA. CUDA's headers and simt.h exclude each other.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/simt/launch.h"

namespace kimi::cudart::test {

// A thread for each i < n.
void launch_each(const char *name, std::size_t n, simt::Stream stream,
                 std::function<void(std::ptrdiff_t i)> body);
// y = x + a
void add(const int *x, int *y, int a, std::size_t n, simt::Stream stream);
// Sets flags[mine] and waits until flags[other] is at least as large.
void meet(int *flags, int mine, int other, int value, simt::Stream stream);

}  // namespace kimi::cudart::test
