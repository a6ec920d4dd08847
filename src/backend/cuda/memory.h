// Memory of a GPU, and pinned memory of the host.
#pragma once

#include <cstddef>
#include <memory>

#include "backend/cuda/check.h"

namespace kimi::cuda {

// Throws KIMI_DEVICE_OUT_OF_MEMORY with what the current device was asked for and what is free.
[[noreturn]] void fail_of_memory(std::size_t bytes, const char *what);
// Of the current device. Throws KIMI_DEVICE_OUT_OF_MEMORY with what was asked and what was
// free.
void *allocate(std::size_t bytes, const char *what);
// Throws KIMI_OUT_OF_MEMORY.
void *allocate_pinned(std::size_t bytes, const char *what);

struct FreeDevice {
    void operator()(void *p) const { cudaFree(p); }
};
struct FreePinned {
    void operator()(void *p) const { cudaFreeHost(p); }
};

// An array of T on the current device, or pinned on the host.
template <typename T, typename Free>
class Array {
  public:
    Array() = default;
    Array(std::size_t n, const char *what)
        : data_(static_cast<T *>(allocate_for<Free>(n * sizeof(T), what))), n_(n) {}

    T *data() const { return data_.get(); }
    std::size_t size() const { return n_; }
    std::size_t bytes() const { return n_ * sizeof(T); }
    void zero(cudaStream_t stream) const {
        check(cudaMemsetAsync(data(), 0, bytes(), stream), "clearing memory");
    }

  private:
    template <typename F>
    static void *allocate_for(std::size_t bytes, const char *what) {
        if constexpr (std::is_same_v<F, FreeDevice>)
            return allocate(bytes, what);
        else
            return allocate_pinned(bytes, what);
    }

    std::unique_ptr<T, Free> data_;
    std::size_t n_ = 0;
};
template <typename T>
using DeviceArray = Array<T, FreeDevice>;
template <typename T>
using PinnedArray = Array<T, FreePinned>;

}  // namespace kimi::cuda
