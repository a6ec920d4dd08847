#include "tools/kernel-bench/measure.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/error.h"

namespace kimi::bench {

void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) fail(KIMI_INTERNAL, what, ": ", cudaGetErrorString(status));
}

Memory::Memory(std::size_t bytes, int fill) {
    void *data = nullptr;
    check(cudaMalloc(&data, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
    data_.reset(data);
    check(cudaMemset(data, fill, bytes), "cudaMemset");
}

double microseconds(const Work &work) {
    constexpr std::size_t kLaunches = 24;
    cudaStream_t stream;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    work.launch(0, stream);
    check(cudaStreamSynchronize(stream), work.name.c_str());
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (std::size_t i = 0; i < kLaunches; ++i) work.launch(i % work.turns, stream);
    check(cudaStreamEndCapture(stream, &graph), "capture");
    check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    float best = std::numeric_limits<float>::infinity();
    for (int i = 0; i < 8; ++i) {
        float ms = 0;
        check(cudaEventRecord(begin, stream), "cudaEventRecord");
        check(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
        check(cudaEventRecord(end, stream), "cudaEventRecord");
        check(cudaEventSynchronize(end), work.name.c_str());
        check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        if (i > 0) best = std::min(best, ms);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    return 1e3 * best / kLaunches;
}

double copy_bandwidth() {
    constexpr std::size_t kBytes = std::size_t{1} << 30;
    const Memory from(kBytes), to(kBytes);
    const double us =
        microseconds({"copy", 0, 0, 1, [&](std::size_t, simt::Stream stream) {
                          check(cudaMemcpyAsync(to.as<void>(), from.as<void>(), kBytes,
                                                cudaMemcpyDeviceToDevice, stream),
                                "copy");
                      }});
    return 2.0 * kBytes / (us * 1e-6);
}

void report(const Work &work, double copy_bytes_per_s) {
    report(work, microseconds(work), copy_bytes_per_s);
}

void report(const Work &work, double us, double copy_bytes_per_s) {
    const double rate = work.bytes / (us * 1e-6);
    std::printf("%-58s %9.2f us %8.1f GB/s %5.1f %% of copy %8.2f TFLOPS\n", work.name.c_str(), us,
                rate * 1e-9, 100 * rate / copy_bytes_per_s, work.flops / (us * 1e-6) * 1e-12);
    std::fflush(stdout);
}

}  // namespace kimi::bench
