// Errors and their texts.
#include <utility>

#include "tests/cudart/runtime.h"

using namespace kimi::cudart;

namespace {

struct Known {
    cudaError_t error;
    const char *name, *text;
};
#define KNOWN(error, text)  \
    Known {                 \
        error, #error, text \
    }
constexpr Known kKnown[] = {
    KNOWN(cudaSuccess, "no error"),
    KNOWN(cudaErrorInvalidValue, "invalid argument"),
    KNOWN(cudaErrorMemoryAllocation, "out of memory"),
    KNOWN(cudaErrorInitializationError, "initialization error"),
    KNOWN(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    KNOWN(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    KNOWN(cudaErrorInsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version"),
    KNOWN(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    KNOWN(cudaErrorInvalidDevice, "invalid device ordinal"),
    KNOWN(cudaErrorDeviceUninitialized, "invalid device context"),
    KNOWN(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    KNOWN(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    KNOWN(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    KNOWN(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    KNOWN(cudaErrorStreamCaptureMerge,
          "operation would result in a merge of separate capture sequences"),
    KNOWN(cudaErrorNotReady, "device not ready"),
    KNOWN(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    KNOWN(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    KNOWN(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    KNOWN(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    KNOWN(cudaErrorLaunchFailure, "unspecified launch failure"),
    KNOWN(cudaErrorNotPermitted, "operation not permitted"),
    KNOWN(cudaErrorNotSupported, "operation not supported"),
    KNOWN(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    KNOWN(cudaErrorStreamCaptureInvalidated,
          "operation failed due to a previous error during capture"),
    KNOWN(cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream"),
    KNOWN(cudaErrorStreamCaptureUnjoined,
          "capture sequence contains a fork that was not joined to the primary stream"),
    KNOWN(cudaErrorStreamCaptureIsolation,
          "dependency created on uncaptured work in another stream"),
    KNOWN(cudaErrorCapturedEvent,
          "operation not permitted on an event last recorded in a capturing stream"),
    KNOWN(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    KNOWN(
        cudaErrorGraphExecUpdateFailure,
        "the graph update was not performed because it included changes which violated constraints"
        " specific to instantiated graph update"),
};
#undef KNOWN

const Known *known(cudaError_t error) {
    for (const Known &k : kKnown)
        if (k.error == error) return &k;
    return nullptr;
}

// That the thread made, or that has broken its device.
cudaError_t last(const char *name, bool forget) {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    OfThread &mine = Runtime::of_thread();
    if (const int status = r.count(name)) return static_cast<cudaError_t>(status);
    if (r.current().error != cudaSuccess) return r.current().error;
    return forget ? std::exchange(mine.error, cudaSuccess) : mine.error;
}

}  // namespace

extern "C" {

const char *cudaGetErrorName(cudaError_t error) {
    const Known *k = known(error);
    return k != nullptr ? k->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    const Known *k = known(error);
    return k != nullptr ? k->text : "unrecognized error code";
}

cudaError_t cudaGetLastError() {
    return last(__func__, true);
}

cudaError_t cudaPeekAtLastError() {
    return last(__func__, false);
}
}
