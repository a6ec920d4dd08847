// The device's clock, in nanoseconds, when all kernels before this one have ended.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

void time_stamp(simt::Global<std::uint64_t> at, simt::Stream stream);

}  // namespace kimi
