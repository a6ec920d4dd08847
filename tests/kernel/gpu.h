// What device.h promises, on the GPU of this machine: no counters, and of the checks only CUDA's
// own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/simt/types.h"
#include "tests/check.h"

namespace kimi::test {

inline void check_cuda(cudaError_t status) {
    INFO(cudaGetErrorString(status));
    REQUIRE(status == cudaSuccess);
}

// Fresh memory is 0xff: NaN in fp32, bf16 and e4m3.
class RawBuffer {
  public:
    RawBuffer(std::string name, std::size_t bytes) : name_(std::move(name)), bytes_(bytes) {
        check_cuda(cudaMalloc(&data_, bytes > 0 ? bytes : 1));
        check_cuda(cudaMemset(data_, 0xff, bytes));
    }
    RawBuffer(const RawBuffer &) = delete;
    RawBuffer &operator=(const RawBuffer &) = delete;
    ~RawBuffer() { cudaFree(data_); }

    std::size_t size_bytes() const { return bytes_; }
    const std::string &name() const { return name_; }

  protected:
    void *data_ = nullptr;

  private:
    std::string name_;
    std::size_t bytes_;
};

template <typename T>
class Buffer : public RawBuffer {
  public:
    Buffer(std::string name, std::size_t count) : RawBuffer(std::move(name), count * sizeof(T)) {}
    Buffer(std::string name, std::span<const T> values) : Buffer(std::move(name), values.size()) {
        upload(values);
    }
    Buffer(std::string name, const std::vector<T> &values)
        : Buffer(std::move(name), std::span<const T>(values)) {}

    std::size_t size() const { return size_bytes() / sizeof(T); }
    T *data() const { return static_cast<T *>(data_); }
    void upload(std::span<const T> values, std::size_t first = 0) {
        REQUIRE(first + values.size() <= size());
        check_cuda(
            cudaMemcpy(data() + first, values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
    }
    std::vector<T> download() const {
        std::vector<T> values(size());
        check_cuda(cudaMemcpy(values.data(), data(), size_bytes(), cudaMemcpyDeviceToHost));
        return values;
    }
};

struct Report {
    cudaError_t status = cudaSuccess;
};
struct Options {
    std::vector<const RawBuffer *> outputs = {};  // for the executor: every byte has to be written
};

inline simt::Stream stream() {
    return nullptr;
}
inline Report run(const std::function<void()> &enqueue, const Options & = {}) {
    enqueue();
    const cudaError_t launched = cudaGetLastError(), ended = cudaDeviceSynchronize();
    return {launched != cudaSuccess ? launched : ended};
}
inline void check_clean(const Report &report) {
    check_cuda(report.status);
}

}  // namespace kimi::test
