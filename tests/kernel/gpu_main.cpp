// Runs the tests of kernels on the first GPU; without one, says so and exits with 77 (skipped).
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdio>

#include "base/error.h"

REGISTER_EXCEPTION_TRANSLATOR(kimi::Error &error) {
    return doctest::String(kimi::cat("status ", error.status, ": ", error.text).c_str());
}

int main(int argc, char **argv) {
    int n_devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&n_devices);
    if (status != cudaSuccess || n_devices == 0) {
        std::printf("SKIPPED: the kernels were not run on a GPU, because there is none: %s\n",
                    cudaGetErrorString(status));
        return 77;
    }
    cudaDeviceProp device{};
    if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) return 1;
    std::printf("kernels on %s, %d SMs, compute capability %d.%d\n", device.name,
                device.multiProcessorCount, device.major, device.minor);
    return doctest::Context(argc, argv).run();
}
