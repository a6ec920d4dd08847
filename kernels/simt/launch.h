// Starts a kernel: on the stream under CUDA, in the thread's LaunchSink under KIMI_SIMT.
#pragma once

#include <cstddef>

#include "kernels/simt/types.h"

namespace kimi::simt {

struct LaunchConfig {
    const char *name;              // for errors and reports
    Dim3 grid, block;              // no extent is 0
    std::size_t shared_bytes = 0;  // dynamic shared memory
    Stream stream = nullptr;
    // Programmatic dependent launch: may start before the kernel ahead of it in the stream ends. It
    // must call grid_dependency_wait() before it touches what that kernel writes.
    bool dependent = false;
    bool cooperative = false;  // blocks wait for each other: all of them must be resident at once
};

}  // namespace kimi::simt

#ifdef __CUDACC__
#include "kernels/simt/cuda_launch.h"
#elif defined(KIMI_SIMT)
#include "tests/simt/launch.h"
#else
#error "kernels are compiled by nvcc, or by the host compiler with KIMI_SIMT"
#endif
