#include "backend/cuda/memory.h"

#include <algorithm>

namespace kimi::cuda {

void fail_of_memory(std::size_t bytes, const char *what) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    int device = 0;
    check(cudaGetDevice(&device), "asking for the device");
    fail(KIMI_DEVICE_OUT_OF_MEMORY, "GPU ", device, ": ", what, " need ", bytes, " bytes, ", free,
         " of ", total, " are free");
}

void *allocate(std::size_t bytes, const char *what) {
    bytes = std::max<std::size_t>(bytes, 1);
    void *p = nullptr;
    const cudaError_t status = cudaMalloc(&p, bytes);
    if (status == cudaErrorMemoryAllocation) fail_of_memory(bytes, what);
    check(status, what);
    return p;
}

void *allocate_pinned(std::size_t bytes, const char *what) {
    void *p = nullptr;
    const cudaError_t status = cudaMallocHost(&p, std::max<std::size_t>(bytes, 1));
    if (status == cudaSuccess) return p;
    cudaGetLastError();
    fail(KIMI_OUT_OF_MEMORY, what, ": no ", bytes,
         " bytes of pinned host memory: ", cudaGetErrorString(status));
}

}  // namespace kimi::cuda
