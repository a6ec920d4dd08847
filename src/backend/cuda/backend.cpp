// What libkimi-cuda.so exports, and the checks before a deployment starts.
#include "backend/cuda_backend.h"

#include "backend/cuda/cuda_device.h"
#include "backend/cuda/self_check.h"

namespace kimi::cuda {
namespace {

// The kernels are built for compute capability 9.0 and 12.0.
bool is_supported(int major) {
    return major == 9 || major == 12;
}

void check_driver(std::uint32_t n) {
    int driver = 0, runtime = 0, devices = 0;
    check(cudaDriverGetVersion(&driver), "asking for the driver");
    check(cudaRuntimeGetVersion(&runtime), "asking for the CUDA runtime");
    if (driver == 0)
        fail(KIMI_NOT_FOUND, "field backend: cuda needs an NVIDIA driver, there is none");
    if (driver / 1000 < runtime / 1000)
        fail(KIMI_UNSUPPORTED, "the NVIDIA driver supports CUDA ", driver / 1000,
             ", this library needs ", runtime / 1000);
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) {
        cudaGetLastError();
        fail(KIMI_NOT_FOUND, "field backend: cuda finds no GPU: ", cudaGetErrorString(status));
    }
    if (static_cast<std::uint32_t>(devices) < n)
        fail(KIMI_NOT_FOUND, "field ranks: is ", n, ", this machine has ", devices, " GPUs");
}

// Throws where the kernels are not for it.
cudaDeviceProp supported_gpu(int gpu) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, gpu), "asking for a GPU");
    if (!is_supported(properties.major))
        fail(KIMI_UNSUPPORTED, "GPU ", gpu, " (", properties.name, ") has compute capability ",
             properties.major, '.', properties.minor, ", the kernels are for 9.0 and 12.0");
    return properties;
}

void log_gpu(int gpu, const cudaDeviceProp &properties, const Log &log) {
    std::size_t free = 0, total = 0;
    check(cudaSetDevice(gpu), "choosing a GPU");
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    log(cat("GPU ", gpu, ": ", properties.name, ", ", properties.multiProcessorCount,
            " multiprocessors, ", free >> 20, " of ", total >> 20, " MiB free"));
}

class Backend final : public CudaBackend {
  public:
    bool has_gpu() const override {
        try {
            check_driver(1);
            supported_gpu(0);
            return true;
        } catch (const Error &) {
            return false;
        }
    }

    std::vector<std::unique_ptr<Device>> make_devices(std::uint32_t n,
                                                      std::shared_ptr<Communicator> ranks,
                                                      const Log &log) const override {
        check_driver(n);
        for (int gpu = 0; gpu < static_cast<int>(n); ++gpu) {
            const cudaDeviceProp properties = supported_gpu(gpu);
            if (log) log_gpu(gpu, properties, log);
            self_check(gpu);
        }
        const auto group = std::make_shared<Group>(n, std::move(ranks), log);
        std::vector<std::unique_ptr<Device>> devices;
        for (std::uint32_t rank = 0; rank < n; ++rank)
            devices.push_back(make_cuda_device(group, rank));
        return devices;
    }
};

}  // namespace
}  // namespace kimi::cuda

extern "C" __attribute__((visibility("default"))) const kimi::CudaBackend *kimi_cuda_backend(
    std::uint32_t version) {
    static const kimi::cuda::Backend backend;
    return version == KIMI_VERSION_NUMBER ? &backend : nullptr;
}
