// What NVIDIA's management library (NVML), which comes with the driver, tells of a GPU.
#pragma once

#include <memory>
#include <optional>

#include "backend/step_recorder.h"

namespace kimi::cuda {

class Nvml {
  public:
    // Where the library is missing or does not know the GPU, there are no readings.
    explicit Nvml(int gpu);
    ~Nvml();

    // A reading, unless the last one is less than 100 ms old. Takes up to half a millisecond, and
    // no stream waits for it.
    std::optional<GpuReading> read();

  private:
    struct Library;

    std::unique_ptr<Library> library_;
    struct nvmlDevice_st *device_ = nullptr;
    std::int64_t read_at_ = 0;                      // ns of the steady clock
    std::optional<std::uint64_t> sent_, received_;  // bytes, counted by the GPU
};

}  // namespace kimi::cuda
