// Device memory and times for kernel-bench.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/types.h"

namespace kimi::bench {

void check(cudaError_t status, const char *what);

// Zeroed, or filled with bytes.
class Memory {
  public:
    explicit Memory(std::size_t bytes, int fill = 0);
    template <typename T>
    explicit Memory(const std::vector<T> &values) : Memory(values.size() * sizeof(T)) {
        check(cudaMemcpy(data_.get(), values.data(), values.size() * sizeof(T),
                         cudaMemcpyHostToDevice),
              "copy");
    }
    template <typename T>
    T *as() const {
        return static_cast<T *>(data_.get());
    }

  private:
    struct Free {
        void operator()(void *p) const { cudaFree(p); }
    };
    std::unique_ptr<void, Free> data_;
};

struct Work {
    std::string name;
    double bytes = 0;  // that must come from DRAM
    double flops = 0;
    std::size_t turns = 1;  // copies of the data that are used in turn, so that L2 has none of it
    std::function<void(std::size_t turn, simt::Stream)> launch;
};

// Microseconds of one launch: the best of several graphs of many launches.
double microseconds(const Work &work);

// Bytes per second that a copy of 1 GiB moves, both ways counted.
double copy_bandwidth();

// One line: time, GB/s, percent of the copy, TFLOPS.
void report(const Work &work, double copy_bytes_per_s);
void report(const Work &work, double us, double copy_bytes_per_s);

}  // namespace kimi::bench
