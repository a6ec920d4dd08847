// Helpers for tests against the stand-in for CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/check.h"
#include "tests/cudart/control.h"
#include "tests/cudart/small_kernels.h"

namespace kimi::cudart::test {

using kimi::test::contains;

// Shows what is known of a status that is not the expected one.
inline void expect(cudaError_t expected, cudaError_t got) {
    INFO("expected ", std::string(cudaGetErrorName(expected)), ", got ",
         std::string(cudaGetErrorName(got)), ": ", last_fault());
    CHECK(got == expected);
}
inline void ok(cudaError_t got) {
    expect(cudaSuccess, got);
}

// Starts a machine, and checks in the end that nothing of it is left.
class Session {
  public:
    explicit Session(const Machine &machine = {}) { start(machine); }
    Session(const Session &) = delete;
    ~Session() { CHECK(leaks() == ""); }
};

inline cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t s = nullptr;
    ok(cudaStreamCreateWithFlags(&s, flags));
    return s;
}
inline cudaEvent_t new_event(unsigned flags = cudaEventDisableTiming) {
    cudaEvent_t e = nullptr;
    ok(cudaEventCreateWithFlags(&e, flags));
    return e;
}

// n elements on the current device, or of pinned memory.
template <typename T>
T *on_device(std::size_t n) {
    void *p = nullptr;
    ok(cudaMalloc(&p, n * sizeof(T)));
    return static_cast<T *>(p);
}
template <typename T>
T *on_device(const std::vector<T> &values) {
    T *p = on_device<T>(values.size());
    ok(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}
template <typename T>
T *pinned(std::size_t n) {
    void *p = nullptr;
    ok(cudaMallocHost(&p, n * sizeof(T)));
    return static_cast<T *>(p);
}
template <typename T>
std::vector<T> download(const T *p, std::size_t n) {
    std::vector<T> values(n);
    ok(cudaMemcpy(values.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

}  // namespace kimi::cudart::test
