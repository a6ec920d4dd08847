// The device that is the host: fp32 activations, weights read where they are mapped.
#pragma once

#include <memory>

#include "backend/device.h"

namespace kimi {

enum class CpuIsa;

// n_threads counts the calling thread.
std::unique_ptr<Device> make_cpu_device(CpuIsa isa, unsigned n_threads);

}  // namespace kimi
