// Devices, and access of one to the memory of another.
#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/cudart/runtime.h"

using namespace kimi::cudart;

namespace {

constexpr int kSharedPerBlock = 48 * 1024, kSharedOptIn = 101376, kSharedPerSm = 102400;
constexpr int kClockKhz = 2'400'000, kMemoryKhz = 14'000'000, kMemoryBits = 512;
constexpr int kL2Bytes = 128 << 20;

cudaError_t attribute(const Machine &machine, cudaDeviceAttr attr, int *value) {
    const std::pair<cudaDeviceAttr, int> known[] = {
        {cudaDevAttrComputeCapabilityMajor, machine.compute_major},
        {cudaDevAttrComputeCapabilityMinor, machine.compute_minor},
        {cudaDevAttrMultiProcessorCount, machine.n_sms},
        {cudaDevAttrMaxThreadsPerBlock, 1024},
        {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMaxSharedMemoryPerBlock, kSharedPerBlock},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedOptIn},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, kSharedPerSm},
        {cudaDevAttrMaxRegistersPerBlock, 65536},
        {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
        {cudaDevAttrL2CacheSize, kL2Bytes},
        {cudaDevAttrClockRate, kClockKhz},
        {cudaDevAttrMemoryClockRate, kMemoryKhz},
        {cudaDevAttrGlobalMemoryBusWidth, kMemoryBits},
        {cudaDevAttrCooperativeLaunch, 1},
        {cudaDevAttrUnifiedAddressing, 1},
        {cudaDevAttrCanMapHostMemory, 1},
        {cudaDevAttrConcurrentKernels, 1},
        {cudaDevAttrAsyncEngineCount, 2},
        {cudaDevAttrStreamPrioritiesSupported, 1},
        {cudaDevAttrComputeMode, cudaComputeModeDefault},
        {cudaDevAttrIntegrated, 0},
    };
    for (const auto &[a, v] : known) {
        if (a != attr) continue;
        *value = v;
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
}

cudaDeviceProp properties(const Machine &machine, int device) {
    cudaDeviceProp p = {};
    std::strcpy(p.name, "CUDA stand-in");
    p.major = machine.compute_major;
    p.minor = machine.compute_minor;
    p.multiProcessorCount = machine.n_sms;
    p.totalGlobalMem = machine.memory_bytes;
    p.sharedMemPerBlock = kSharedPerBlock;
    p.sharedMemPerBlockOptin = kSharedOptIn;
    p.sharedMemPerMultiprocessor = kSharedPerSm;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.maxThreadsPerBlock = 1024;
    p.l2CacheSize = kL2Bytes;
    p.memoryBusWidth = kMemoryBits;
    p.pciBusID = device + 1;
    p.cooperativeLaunch = p.unifiedAddressing = p.canMapHostMemory = p.concurrentKernels = 1;
    p.asyncEngineCount = 2;
    p.streamPrioritiesSupported = 1;
    return p;
}

bool can_access(const Machine &machine, int device, int peer) {
    return device != peer && (!machine.can_access || machine.can_access(device, peer));
}

cudaError_t set_access(Runtime &r, int peer, bool on) {
    const int mine = Runtime::of_thread().device;
    if (!r.has(peer) || peer == mine) return cudaErrorInvalidDevice;
    std::uint64_t &reaches = r.current().reaches;
    const std::uint64_t bit = std::uint64_t{1} << peer;
    if (on && !can_access(r.machine, mine, peer)) return cudaErrorPeerAccessUnsupported;
    if (on && (reaches & bit) != 0) return cudaErrorPeerAccessAlreadyEnabled;
    if (!on && (reaches & bit) == 0) return cudaErrorPeerAccessNotEnabled;
    reaches ^= bit;
    r.update_visibility(peer);
    return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int *count) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        *count = r.machine.n_devices;
        return r.machine.n_devices > 0 ? cudaSuccess : cudaErrorNoDevice;
    });
}

cudaError_t cudaSetDevice(int device) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        if (!r.has(device)) return cudaErrorInvalidDevice;
        Runtime::of_thread().device = device;
        return cudaSuccess;
    });
}

cudaError_t cudaGetDevice(int *device) {
    return call(__func__, Needs::kNothing, [&](Runtime &, Lock &) {
        *device = Runtime::of_thread().device;
        return cudaSuccess;
    });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        if (!r.has(device)) return cudaErrorInvalidDevice;
        *prop = properties(r.machine, device);
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        return r.has(device) ? attribute(r.machine, attr, value) : cudaErrorInvalidDevice;
    });
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int n, int device) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        if (!r.has(device)) return cudaErrorInvalidDevice;
        const int length = std::snprintf(id, static_cast<std::size_t>(n), "0000:%02X:00.0",
                                         properties(r.machine, device).pciBusID);
        return length < n ? cudaSuccess : cudaErrorInvalidValue;
    });
}

cudaError_t cudaDriverGetVersion(int *version) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        *version = r.machine.driver_version;
        return cudaSuccess;
    });
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        *version = r.machine.runtime_version;
        return cudaSuccess;
    });
}

cudaError_t cudaMemGetInfo(std::size_t *free, std::size_t *total) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        *total = r.machine.memory_bytes;
        *free = *total - r.current().used;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        if (!r.has(device) || !r.has(peer)) return cudaErrorInvalidDevice;
        *can = can_access(r.machine, device, peer);
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        return flags == 0 ? set_access(r, peer, true) : cudaErrorInvalidValue;
    });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    return call(__func__, Needs::kDevice,
                [&](Runtime &r, Lock &) { return set_access(r, peer, false); });
}

cudaError_t cudaDeviceSynchronize() {
    return call(__func__, Needs::kDeviceAndNoCapture, [](Runtime &r, Lock &lock) {
        const int device = Runtime::of_thread().device;
        for (Stream *s : r.streams) {
            if (s->device != device || !s->captured) continue;
            s->captured.capture->invalid = true;
            return cudaErrorStreamCaptureUnsupported;
        }
        r.wait_device(lock, device);
        return r.current().error;
    });
}

cudaError_t cudaDeviceReset() {
    return call(__func__, Needs::kNothing, [](Runtime &r, Lock &lock) {
        r.reset(lock, Runtime::of_thread().device);
        return cudaSuccess;
    });
}
}
