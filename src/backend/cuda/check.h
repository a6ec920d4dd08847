// Every call of CUDA and NCCL goes through here.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "base/error.h"

namespace kimi::cuda {

// Throws KIMI_DEVICE_LOST with what was tried, unless a call succeeded.
inline void check(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // of a call, not of the device: the next one starts clean
    fail(KIMI_DEVICE_LOST, what, ": ", cudaGetErrorString(status));
}
inline void check(ncclResult_t status, const char *what) {
    if (status != ncclSuccess) fail(KIMI_DEVICE_LOST, what, ": ", ncclGetErrorString(status));
}

}  // namespace kimi::cuda
