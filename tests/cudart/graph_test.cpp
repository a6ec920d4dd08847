#include <chrono>
#include <cstdio>
#include <thread>

#include "base/bf16.h"
#include "kernels/embed.h"
#include "kernels/rms_norm.h"
#include "kernels/skinny_gemm.h"
#include "tests/cudart/testing.h"

namespace kimi::cudart::test {
namespace {

constexpr cudaStreamCaptureMode kGlobal = cudaStreamCaptureModeGlobal,
                                kThread = cudaStreamCaptureModeThreadLocal,
                                kRelaxed = cudaStreamCaptureModeRelaxed;

// Memory and streams that captures use.
struct Place {
    cudaStream_t s = new_stream(), other = new_stream();
    cudaEvent_t fork = new_event(), join = new_event();
    int *p = on_device(std::vector<int>(64, 1)), *q = on_device(std::vector<int>(64, 2)),
        *h = pinned<int>(64);

    void free() {
        ok(cudaStreamDestroy(s));
        ok(cudaStreamDestroy(other));
        ok(cudaEventDestroy(fork));
        ok(cudaEventDestroy(join));
        ok(cudaFree(p));
        ok(cudaFree(q));
        ok(cudaFreeHost(h));
    }
};

// What `enqueue` puts into a stream, as a graph.
template <typename F>
cudaGraph_t capture(cudaStream_t s, F &&enqueue) {
    ok(cudaStreamBeginCapture(s, kThread));
    enqueue();
    cudaGraph_t graph = nullptr;
    ok(cudaStreamEndCapture(s, &graph));
    return graph;
}
template <typename F>
cudaGraphExec_t executable(cudaStream_t s, F &&enqueue) {
    cudaGraph_t graph = capture(s, std::forward<F>(enqueue));
    cudaGraphExec_t exec = nullptr;
    ok(cudaGraphInstantiate(&exec, graph, 0));
    ok(cudaGraphDestroy(graph));
    return exec;
}

TEST_CASE(
    "cuda: a capture runs nothing, and its graph does each time, with what memory holds then") {
    const Session session;
    Place place;
    cudaGraph_t graph = capture(place.s, [&] {
        ok(cudaMemcpyAsync(place.p, place.h, 4, cudaMemcpyHostToDevice, place.s));
        add(place.p, place.q, 5, 64, place.s);
        ok(cudaMemsetAsync(place.q + 1, 0, 4, place.s));
        ok(cudaMemcpyAsync(place.h + 8, place.q, 8, cudaMemcpyDeviceToHost, place.s));
    });
    std::size_t n = 0;
    ok(cudaGraphGetNodes(graph, nullptr, &n));
    CHECK(n == 4);
    ok(cudaDeviceSynchronize());
    CHECK(n_kernels() == 0);
    cudaGraphExec_t exec = nullptr;
    ok(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    ok(cudaGraphDestroy(graph));
    ok(cudaGraphUpload(exec, place.s));
    for (const int value : {3, 8}) {
        *place.h = value;
        ok(cudaGraphLaunch(exec, place.s));
        ok(cudaStreamSynchronize(place.s));
        CHECK(place.h[8] == value + 5);
        CHECK(place.h[9] == 0);
    }
    CHECK(n_kernels() == 2);
    ok(cudaGraphExecDestroy(exec));
    place.free();
}

TEST_CASE("cuda: graphs run in the order of the stream, also when launched again while they wait") {
    const Session session;
    Place place;
    const cudaGraphExec_t twice = executable(place.s, [&] {
        add(place.p, place.p, 1, 64, place.s);
        add(place.p, place.p, 10, 64, place.s);
    });
    add(place.p, place.q, 0, 64, place.s);
    ok(cudaGraphLaunch(twice, place.s));
    ok(cudaGraphLaunch(twice, place.s));
    ok(cudaGraphExecDestroy(twice));  // what is launched still runs
    add(place.p, place.p, 100, 64, place.s);
    ok(cudaStreamSynchronize(place.s));
    CHECK(download(place.p, 1)[0] == 1 + 22 + 100);
    CHECK(download(place.q, 1)[0] == 1);
    place.free();
}

TEST_CASE("cuda: an executable graph takes memory of its device until it is destroyed") {
    const Session session({.memory_bytes = 1'000'000, .graph_node_bytes = 400'000});
    const auto free_bytes = [] {
        std::size_t free = 0, total = 0;
        ok(cudaMemGetInfo(&free, &total));
        return free;
    };
    Place place;
    const std::size_t before = free_bytes();
    cudaGraph_t graph = capture(place.s, [&] {
        add(place.p, place.p, 1, 64, place.s);
        add(place.p, place.p, 10, 64, place.s);
    });
    CHECK(free_bytes() == before);
    cudaGraphExec_t exec = nullptr, second = nullptr;
    ok(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(free_bytes() == before - 800'000);
    CHECK(live().graph_bytes == 800'000);
    expect(cudaErrorMemoryAllocation, cudaGraphInstantiate(&second, graph, 0));
    void *p = nullptr;
    expect(cudaErrorMemoryAllocation, cudaMalloc(&p, 400'000));
    ok(cudaGraphExecDestroy(exec));
    CHECK(free_bytes() == before);
    ok(cudaGraphInstantiate(&second, graph, 0));
    ok(cudaGraphExecDestroy(second));
    ok(cudaGraphDestroy(graph));
    cudaGetLastError();
    place.free();
}

TEST_CASE("cuda: a capture forks to another stream and joins it") {
    const Session session;
    Place place;
    const cudaGraphExec_t exec = executable(place.s, [&] {
        ok(cudaEventRecord(place.fork, place.s));
        ok(cudaStreamWaitEvent(place.other, place.fork, 0));
        add(place.p, place.p, 1, 64, place.s);
        add(place.q, place.q, 2, 64, place.other);
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        ok(cudaStreamIsCapturing(place.other, &status));
        CHECK(status == cudaStreamCaptureStatusActive);
        ok(cudaEventRecord(place.join, place.other));
        ok(cudaStreamWaitEvent(place.s, place.join, 0));
        add(place.q, place.p, 0, 32, place.s);  // needs both
    });
    ok(cudaGraphLaunch(exec, place.s));
    ok(cudaStreamSynchronize(place.s));
    CHECK(download(place.p, 64)[0] == 4);
    CHECK(download(place.p, 64)[63] == 2);
    // The other stream is free again.
    add(place.q, place.q, 1, 64, place.other);
    ok(cudaStreamSynchronize(place.other));
    ok(cudaGraphExecDestroy(exec));
    place.free();
}

TEST_CASE("cuda: streams of a graph that use the same bytes without an order are a fault") {
    const Session session;
    Place place;
    const cudaGraphExec_t exec = executable(place.s, [&] {
        ok(cudaEventRecord(place.fork, place.s));
        ok(cudaStreamWaitEvent(place.other, place.fork, 0));
        add(place.p, place.q, 1, 64, place.s);
        add(place.p, place.q, 2, 64, place.other);
        ok(cudaEventRecord(place.join, place.other));
        ok(cudaStreamWaitEvent(place.s, place.join, 0));
    });
    ok(cudaGraphLaunch(exec, place.s));
    expect(cudaErrorIllegalAddress, cudaStreamSynchronize(place.s));
    CHECK(contains(last_fault(), "nothing orders kernel add before"));
    ok(cudaGraphExecDestroy(exec));
    ok(cudaDeviceReset());
    ok(cudaFreeHost(place.h));
}

TEST_CASE("cuda: a graph whose memory is gone breaks the device") {
    const Session session;
    for (const bool copies : {false, true}) {
        Place place;
        const cudaGraphExec_t exec = executable(place.s, [&] {
            if (copies) {
                ok(cudaMemcpyAsync(place.q, place.p, 4, cudaMemcpyDeviceToDevice, place.s));
            } else {
                add(place.p, place.q, 1, 64, place.s);
            }
        });
        ok(cudaFree(place.p));
        ok(cudaGraphLaunch(exec, place.s));
        expect(cudaErrorIllegalAddress, cudaStreamSynchronize(place.s));
        CHECK(contains(last_fault(), "released memory"));
        ok(cudaGraphExecDestroy(exec));
        ok(cudaDeviceReset());
        ok(cudaFreeHost(place.h));
    }
}

TEST_CASE("cuda: calls that may wait break a capture") {
    const Session session;
    Place place;
    void *p = nullptr;
    int value = 0;
    const auto broken_by = [&](cudaError_t expected, auto &&unsafe) {
        ok(cudaStreamBeginCapture(place.s, kThread));
        ok(cudaEventRecord(place.fork, place.s));
        add(place.p, place.q, 1, 64, place.s);
        expect(expected, unsafe());
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        ok(cudaStreamIsCapturing(place.s, &status));
        CHECK(status == cudaStreamCaptureStatusInvalidated);
        const Error error = kimi::test::error_of([&] { add(place.p, place.q, 1, 64, place.s); });
        CHECK(contains(error.text, "previous error during capture"));
        cudaGraph_t graph = nullptr;
        expect(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(place.s, &graph));
        CHECK(graph == nullptr);
        add(place.p, place.q, 1, 64, place.s);  // the stream is usable again
        ok(cudaStreamSynchronize(place.s));
    };
    constexpr cudaError_t kUnsupported = cudaErrorStreamCaptureUnsupported;
    broken_by(kUnsupported, [&] { return cudaMalloc(&p, 4); });
    broken_by(kUnsupported, [&] { return cudaFree(place.q); });
    broken_by(kUnsupported, [&] { return cudaMallocHost(&p, 4); });
    broken_by(kUnsupported, [&] { return cudaFreeHost(place.h); });
    broken_by(kUnsupported, [&] { return cudaMemcpy(place.p, &value, 4, cudaMemcpyDefault); });
    broken_by(kUnsupported, [&] { return cudaMemset(place.p, 0, 4); });
    broken_by(kUnsupported, [&] { return cudaDeviceSynchronize(); });
    broken_by(kUnsupported, [&] { return cudaStreamSynchronize(place.s); });
    broken_by(kUnsupported, [&] { return cudaStreamQuery(place.s); });
    broken_by(kUnsupported, [&] { return cudaStreamSynchronize(place.other); });
    broken_by(kUnsupported, [&] { return cudaEventQuery(place.join); });
    CHECK(p == nullptr);
    ok(cudaEventRecord(place.join, place.other));
    broken_by(cudaErrorStreamCaptureIsolation,
              [&] { return cudaStreamWaitEvent(place.s, place.join, 0); });
    place.free();
}

TEST_CASE("cuda: nobody waits for what is captured, even if the capture is relaxed") {
    const Session session;
    Place place;
    const auto broken_by = [&](cudaError_t expected, auto &&unsafe) {
        ok(cudaStreamBeginCapture(place.s, kRelaxed));
        ok(cudaEventRecord(place.fork, place.s));
        void *p = nullptr;
        ok(cudaMalloc(&p, 4));
        ok(cudaFree(p));
        ok(cudaStreamSynchronize(place.other));
        expect(expected, unsafe());
        cudaGraph_t graph = nullptr;
        expect(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(place.s, &graph));
    };
    constexpr cudaError_t kUnsupported = cudaErrorStreamCaptureUnsupported;
    broken_by(kUnsupported, [&] { return cudaStreamSynchronize(place.s); });
    broken_by(kUnsupported, [&] { return cudaDeviceSynchronize(); });
    broken_by(cudaErrorCapturedEvent, [&] { return cudaEventSynchronize(place.fork); });
    broken_by(cudaErrorCapturedEvent, [&] { return cudaEventQuery(place.fork); });
    expect(cudaErrorCapturedEvent, cudaStreamWaitEvent(place.other, place.fork, 0));  // it ended
    place.free();
}

TEST_CASE("cuda: a global capture is broken by other threads, a thread's own is not") {
    const Session session;
    Place place;
    for (const cudaStreamCaptureMode mode : {kGlobal, kThread, kRelaxed}) {
        ok(cudaStreamBeginCapture(place.s, mode));
        std::thread([&] {
            void *p = nullptr;
            expect(mode == kGlobal ? cudaErrorStreamCaptureUnsupported : cudaSuccess,
                   cudaMalloc(&p, 4));
            if (p != nullptr) ok(cudaFree(p));
        }).join();
        cudaGraph_t graph = nullptr;
        expect(mode == kGlobal ? cudaErrorStreamCaptureInvalidated : cudaSuccess,
               cudaStreamEndCapture(place.s, &graph));
        if (graph != nullptr) ok(cudaGraphDestroy(graph));
    }
    place.free();
}

TEST_CASE("cuda: captures that end where they must not") {
    const Session session;
    Place place;
    cudaGraph_t graph = nullptr;
    expect(cudaErrorIllegalState, cudaStreamEndCapture(place.s, &graph));
    ok(cudaStreamBeginCapture(place.s, kThread));
    expect(cudaErrorIllegalState, cudaStreamBeginCapture(place.s, kThread));
    std::thread([&] {
        expect(cudaErrorStreamCaptureWrongThread, cudaStreamEndCapture(place.s, &graph));
    }).join();
    ok(cudaStreamEndCapture(place.s, &graph));
    ok(cudaGraphDestroy(graph));
    const auto fork = [&] {
        ok(cudaStreamBeginCapture(place.s, kThread));
        ok(cudaEventRecord(place.fork, place.s));
        ok(cudaStreamWaitEvent(place.other, place.fork, 0));
        add(place.p, place.q, 1, 64, place.other);
    };
    fork();
    expect(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(place.s, &graph));
    fork();
    expect(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(place.other, &graph));
    expect(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(place.s, &graph));
    CHECK(graph == nullptr);
    // Two captures stay apart.
    ok(cudaStreamBeginCapture(place.s, kThread));
    ok(cudaStreamBeginCapture(place.other, kThread));
    ok(cudaEventRecord(place.fork, place.s));
    expect(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(place.other, place.fork, 0));
    expect(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(place.s, &graph));
    expect(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(place.other, &graph));
    place.free();
}

TEST_CASE("cuda: an executable graph takes over another one of the same shape") {
    const Session session;
    Place place;
    const auto one = [&](int a, const int *from, int *to) {
        return capture(place.s, [&] { add(from, to, a, 64, place.s); });
    };
    cudaGraph_t graph = one(1, place.p, place.q);
    cudaGraphExec_t exec = nullptr;
    ok(cudaGraphInstantiate(&exec, graph, 0));
    ok(cudaGraphDestroy(graph));
    graph = one(7, place.q, place.p);
    cudaGraphExecUpdateResultInfo info = {};
    ok(cudaGraphLaunch(exec, place.s));  // waits with the old parameters
    ok(cudaGraphExecUpdate(exec, graph, &info));
    CHECK(info.result == cudaGraphExecUpdateSuccess);
    ok(cudaGraphLaunch(exec, place.s));
    ok(cudaStreamSynchronize(place.s));
    CHECK(download(place.q, 1)[0] == 2);
    CHECK(download(place.p, 1)[0] == 9);
    ok(cudaGraphDestroy(graph));
    const auto refused = [&](cudaGraphExecUpdateResult result, auto &&enqueue) {
        graph = capture(place.s, enqueue);
        expect(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, graph, &info));
        CHECK(info.result == result);
        ok(cudaGraphDestroy(graph));
    };
    refused(cudaGraphExecUpdateErrorNodeTypeChanged,
            [&] { ok(cudaMemsetAsync(place.p, 0, 4, place.s)); });
    refused(cudaGraphExecUpdateErrorTopologyChanged, [&] {
        add(place.p, place.q, 1, 64, place.s);
        add(place.p, place.q, 1, 64, place.s);
    });
    ok(cudaGraphExecDestroy(exec));
    place.free();
}

// Embedding, norm and a projection, as a decode step begins.
struct Step {
    static constexpr std::uint32_t kRows = 4, kWidth = 128, kOutputs = 64, kVocab = 32;

    static std::vector<bf16> weights(std::size_t n, int seed) {
        std::vector<bf16> w(n);
        for (std::size_t i = 0; i < n; ++i)
            w[i] = to_bf16(static_cast<float>((i * 37 + static_cast<std::size_t>(seed)) % 17) / 16 -
                           0.5F);
        return w;
    }

    std::vector<bf16> table_ = weights(kVocab * kWidth, 1), gain_ = weights(kWidth, 2),
                      matrix_ = weights(kOutputs * kWidth, 3);
    cudaStream_t stream = new_stream();
    std::int32_t *token = on_device(std::vector<std::int32_t>(kRows));
    std::uint32_t *n_rows = on_device(std::vector<std::uint32_t>{kRows});
    bf16 *table = on_device(table_), *gain = on_device(gain_), *matrix = on_device(matrix_);
    float *x = on_device<float>(kRows * kWidth), *y = on_device<float>(kRows * kOutputs);
    bf16 *normed = on_device<bf16>(kRows * kWidth);
    float *partial = nullptr;
    std::uint32_t *arrived = nullptr;
    SkinnyGemmParams gemm = {};

    Step() {
        gemm.x = normed;
        gemm.n_rows = n_rows;
        gemm.max_rows = kRows;
        gemm.inputs = kWidth;
        gemm.jobs[0] = {.weight = matrix, .y_f32 = y, .outputs = kOutputs};
        gemm.n_jobs = 1;
        gemm.tiles = skinny_gemm_tiles(kRows, kOutputs, kWidth, 188);
        const SkinnyGemmWorkspace need = skinny_gemm_workspace(gemm);
        partial = on_device<float>(need.partial);
        arrived = on_device(std::vector<std::uint32_t>(need.arrived));
        gemm.partial = partial;
        gemm.arrived = arrived;
    }
    void free() const {
        ok(cudaStreamDestroy(stream));
        for (void *p : std::initializer_list<void *>{token, n_rows, table, gain, matrix, x, y,
                                                     normed, partial, arrived})
            ok(cudaFree(p));
    }
    void enqueue() const {
        embed({.token = token,
               .table = table,
               .y_f32 = x,
               .n_rows = n_rows,
               .max_rows = kRows,
               .width = kWidth,
               .table_rows = kVocab},
              stream);
        rms_norm({.x = x,
                  .weight = gain,
                  .y = normed,
                  .n_rows = n_rows,
                  .max_rows = kRows,
                  .width = kWidth,
                  .eps = 1e-5F},
                 stream);
        skinny_gemm(gemm, stream);
    }
    std::vector<float> run(const std::vector<std::int32_t> &tokens, cudaGraphExec_t exec) const {
        ok(cudaMemcpy(token, tokens.data(), 4 * kRows, cudaMemcpyHostToDevice));
        if (exec != nullptr) {
            ok(cudaGraphLaunch(exec, stream));
        } else {
            enqueue();
        }
        ok(cudaStreamSynchronize(stream));
        return download(y, kRows * kOutputs);
    }
    std::vector<float> expected(const std::vector<std::int32_t> &tokens) const {
        std::vector<float> out;
        for (const std::int32_t t : tokens) {
            const bf16 *row = &table_[static_cast<std::size_t>(t) * kWidth];
            double squares = 0;
            for (std::uint32_t c = 0; c < kWidth; ++c) squares += std::pow(to_float(row[c]), 2);
            const double factor = 1 / std::sqrt(squares / kWidth + 1e-5);
            for (std::uint32_t o = 0; o < kOutputs; ++o) {
                double sum = 0;
                for (std::uint32_t c = 0; c < kWidth; ++c) {
                    const auto v =
                        static_cast<float>(to_float(row[c]) * factor * to_float(gain_[c]));
                    sum += double{to_float(to_bf16(v))} * to_float(matrix_[o * kWidth + c]);
                }
                out.push_back(static_cast<float>(sum));
            }
        }
        return out;
    }
};

TEST_CASE("cuda: a graph of real kernels does what they do eagerly, for other tokens too") {
    const Session session;
    const Step step;
    const cudaGraphExec_t exec = executable(step.stream, [&] { step.enqueue(); });
    for (const auto &tokens : std::vector<std::vector<std::int32_t>>{{1, 2, 3, 4}, {31, 0, 7, 7}}) {
        const std::vector<float> eager = step.run(tokens, nullptr);
        kimi::test::check_close(eager, step.expected(tokens), 2e-2);
        CHECK(step.run(tokens, exec) == eager);
    }
    constexpr int kReplays = 20;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kReplays; ++i) ok(cudaGraphLaunch(exec, step.stream));
    ok(cudaStreamSynchronize(step.stream));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("cuda: %.0f kernels/s (embed, rms_norm, skinny_gemm; %u rows, %u to %u)\n",
                3 * kReplays / took.count(), Step::kRows, Step::kWidth, Step::kOutputs);
    ok(cudaGraphExecDestroy(exec));
    step.free();
}

}  // namespace
}  // namespace kimi::cudart::test
