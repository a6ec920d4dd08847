// How a launch that fails is told.
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace kimi::simt {

// What a launch may not ask for is a bug. Everything else is an error of the device, which launches
// tell first where work before them failed.
inline bool is_bug_of_launch(cudaError_t status) {
    return status == cudaErrorInvalidValue || status == cudaErrorInvalidConfiguration ||
           status == cudaErrorInvalidDeviceFunction || status == cudaErrorInvalidResourceHandle ||
           status == cudaErrorLaunchOutOfResources;
}

inline void check_launch(cudaError_t status, const char *kernel) {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // of a call, not of the device: the next one starts clean
    fail(is_bug_of_launch(status) ? KIMI_INTERNAL : KIMI_DEVICE_LOST, "kernel ", kernel, ": ",
         cudaGetErrorString(status));
}

}  // namespace kimi::simt
