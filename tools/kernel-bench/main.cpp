// kernel-bench: time, bandwidth and arithmetic of every kernel on the first GPU, in one table.
#include <cstdio>

#include "base/error.h"
#include "tools/kernel-bench/cases.h"

int main() {
    using namespace kimi::bench;
    cudaDeviceProp device{};
    if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
        std::fprintf(stderr, "kernel-bench needs a GPU\n");
        return 77;
    }
    try {
        const Machine machine{device.multiProcessorCount,
                              static_cast<std::size_t>(device.l2CacheSize), copy_bandwidth()};
        std::printf("%s, %d SMs, %.0f MB L2, copy %.0f GB/s\n\n", device.name, machine.n_sms,
                    static_cast<double>(machine.l2_bytes) * 1e-6, machine.copy_bytes_per_s * 1e-9);
        bench_attention(machine);
        std::printf("\n");
        bench_products(machine);
        std::printf("\n");
        bench_rows(machine);
        std::printf("\n");
        bench_sums(machine);
    } catch (const kimi::Error &error) {
        std::fprintf(stderr, "kernel-bench: %s\n", error.text.c_str());
        return 1;
    }
}
