// Device memory and launches for the tests of kernels: on the executor of tests/simt with
// KIMI_SIMT, otherwise on the GPU of this machine. The same test sources are built both ways; only
// the former counts and checks accesses.
#pragma once

#ifdef KIMI_SIMT

#include "tests/simt/testing.h"

namespace kimi::test {

using simt::host::Buffer;
using simt::host::check_clean;
using simt::host::Options;
using simt::host::Report;
using simt::host::run;
using simt::host::run_together;

// Of the device whose launches are being made.
inline simt::Stream stream() {
    return nullptr;
}

}  // namespace kimi::test

#else

#include "tests/kernel/gpu.h"

#endif
