// The CUDA backend, a library of its own: libkimi.so never links CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/communicator.h"
#include "backend/device.h"

namespace kimi {

class CudaBackend {
  public:
    virtual ~CudaBackend() = default;

    // make_devices could give one GPU at least. Takes no memory of it.
    virtual bool has_gpu() const = 0;

    // GPUs 0 to n - 1, whose ranks meet in `ranks`; log gets what is worth knowing about them.
    // Throws KIMI_NOT_FOUND where there are fewer, KIMI_UNSUPPORTED where a GPU or its driver is
    // too old, KIMI_DEVICE_LOST where a kernel computes wrongly.
    virtual std::vector<std::unique_ptr<Device>> make_devices(
        std::uint32_t n, std::shared_ptr<Communicator> ranks,
        const std::function<void(const std::string &)> &log) const = 0;
};

// Opens the library: `path`, or libkimi-cuda.so beside this library where that is empty. It stays
// loaded. Throws KIMI_NOT_FOUND with the loader's text, or KIMI_VERSION_MISMATCH.
const CudaBackend &open_cuda_backend(const std::string &path);

// The library beside this one opens and has a GPU. Loads it, and it stays loaded.
bool has_cuda() noexcept;

// What the library exports, under kCudaBackendSymbol: its backend, or null where it is not asked
// for by its own KIMI_VERSION_NUMBER.
using CudaBackendFunction = const CudaBackend *(std::uint32_t version);
inline constexpr const char *kCudaBackendSymbol = "kimi_cuda_backend";

}  // namespace kimi
