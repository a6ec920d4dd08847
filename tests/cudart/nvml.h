// A libnvidia-ml.so.1 for machines without a driver, and what a test decides about it.
#pragma once

#include <atomic>
#include <cstdint>

namespace kimi::test {

struct NvmlGpu {
    unsigned gpu_percent = 0, memory_percent = 0;
    std::uint64_t sent = 0, received = 0;            // bytes; sent is told in 32 bits
    std::uint64_t more_sent = 0, more_received = 0;  // with every reading
};

struct NvmlMachine {
    NvmlGpu gpu[2];  // on the buses 1 and 2
    int init_status = 0, utilization_status = 0, field_status = 0;
    std::atomic<int> n_users = 0;
};

}  // namespace kimi::test

extern "C" kimi::test::NvmlMachine *nvml_machine();
