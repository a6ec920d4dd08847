// Large zeroed arrays of host memory, committed page by page when they are first touched.
#pragma once

#include <cstddef>
#include <utility>

namespace kimi {

class HostMemory {
  public:
    HostMemory() = default;
    // Throws KIMI_OUT_OF_MEMORY with `what` and the size.
    HostMemory(std::size_t bytes, const char *what);
    HostMemory(HostMemory &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    HostMemory &operator=(HostMemory &&other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~HostMemory();

    std::byte *data() const { return data_; }
    float *floats() const { return reinterpret_cast<float *>(data_); }
    std::size_t bytes() const { return bytes_; }

  private:
    std::byte *data_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace kimi
