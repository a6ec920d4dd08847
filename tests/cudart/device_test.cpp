#include <thread>

#include "tests/cudart/testing.h"

namespace kimi::cudart::test {
namespace {

TEST_CASE("cuda: the machine is what the test says") {
    const Session session(
        {.n_devices = 3, .compute_major = 9, .n_sms = 7, .driver_version = 12080});
    int n = 0;
    ok(cudaGetDeviceCount(&n));
    CHECK(n == 3);
    cudaDeviceProp p;
    ok(cudaGetDeviceProperties(&p, 2));
    CHECK(p.major == 9);
    CHECK(p.minor == 0);
    CHECK(p.multiProcessorCount == 7);
    CHECK(p.totalGlobalMem == std::size_t{8} << 30);
    ok(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0));
    CHECK(n == 7);
    ok(cudaDriverGetVersion(&n));
    CHECK(n == 12080);
    expect(cudaErrorInvalidDevice, cudaGetDeviceProperties(&p, 3));
    expect(cudaErrorInvalidDevice, cudaSetDevice(-1));
    start({.n_devices = 0});
    expect(cudaErrorNoDevice, cudaGetDeviceCount(&n));
    expect(cudaErrorNoDevice, cudaGetLastError());
    void *none = nullptr;
    expect(cudaErrorNoDevice, cudaMalloc(&none, 1));
}

TEST_CASE("cuda: every host thread has its device and its last error") {
    const Session session({.n_devices = 2});
    ok(cudaSetDevice(1));
    expect(cudaErrorInvalidDevice, cudaSetDevice(2));
    std::thread([] {
        int device = -1;
        ok(cudaGetDevice(&device));
        CHECK(device == 0);
        ok(cudaGetLastError());
    }).join();
    int device = -1;
    ok(cudaGetDevice(&device));
    CHECK(device == 1);
    expect(cudaErrorInvalidDevice, cudaPeekAtLastError());
    expect(cudaErrorInvalidDevice, cudaGetLastError());
    ok(cudaGetLastError());
}

// A value on each of two devices, and a stream of each.
struct Pair {
    int *p[2];
    cudaStream_t s[2];

    Pair() {
        for (int d = 0; d < 2; ++d) {
            ok(cudaSetDevice(d));
            p[d] = on_device(std::vector<int>(32, 10 + d));
            s[d] = new_stream();
        }
        ok(cudaSetDevice(0));
    }
    void free() {
        for (int d = 0; d < 2; ++d) {
            ok(cudaSetDevice(d));
            ok(cudaFree(p[d]));
            ok(cudaStreamDestroy(s[d]));
        }
        ok(cudaSetDevice(0));
    }
};

TEST_CASE("cuda: a device needs access to the memory of a peer") {
    const Session session({.n_devices = 2});
    Pair pair;
    const auto copy = [&] {
        return cudaMemcpyAsync(pair.p[0], pair.p[1], 4, cudaMemcpyDeviceToDevice, pair.s[0]);
    };
    expect(cudaErrorInvalidValue, copy());
    CHECK(contains(last_fault(), "out of reach"));
    ok(cudaMemcpyPeerAsync(pair.p[0], 0, pair.p[1], 1, 4, pair.s[0]));  // through the host
    ok(cudaStreamSynchronize(pair.s[0]));
    CHECK(download(pair.p[0], 2) == std::vector<int>{11, 10});
    ok(cudaDeviceEnablePeerAccess(1, 0));
    expect(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
    add(pair.p[1], pair.p[0], 1, 32, pair.s[0]);
    ok(cudaStreamSynchronize(pair.s[0]));
    CHECK(download(pair.p[0], 1)[0] == 12);
    ok(copy());
    ok(cudaStreamSynchronize(pair.s[0]));
    ok(cudaDeviceDisablePeerAccess(1));
    expect(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    add(pair.p[1], pair.p[0], 1, 32, pair.s[0]);
    expect(cudaErrorIllegalAddress, cudaStreamSynchronize(pair.s[0]));
    CHECK(contains(last_fault(), "device 0 has no access to"));
    ok(cudaDeviceReset());
    pair.p[0] = nullptr, pair.s[0] = new_stream();
    pair.free();
}

TEST_CASE("cuda: peers that cannot reach each other") {
    const Session session({.n_devices = 3, .can_access = [](int a, int b) { return a + b != 3; }});
    int can = -1;
    ok(cudaDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can == 1);
    ok(cudaDeviceCanAccessPeer(&can, 2, 1));
    CHECK(can == 0);
    ok(cudaDeviceCanAccessPeer(&can, 1, 1));
    CHECK(can == 0);
    ok(cudaSetDevice(2));
    expect(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(1, 0));
    ok(cudaDeviceEnablePeerAccess(0, 0));
    expect(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(2, 0));
}

TEST_CASE("cuda: work belongs on the streams of the current device") {
    const Session session({.n_devices = 2});
    Pair pair;
    const Error error = kimi::test::error_of([&] { add(pair.p[1], pair.p[1], 1, 32, pair.s[1]); });
    CHECK(contains(error.text, "kernel add: invalid resource handle"));
    const cudaEvent_t event = new_event();
    expect(cudaErrorInvalidResourceHandle, cudaEventRecord(event, pair.s[1]));
    ok(cudaEventRecord(event, pair.s[0]));
    ok(cudaStreamWaitEvent(pair.s[1], event, 0));  // across devices is fine
    ok(cudaEventDestroy(event));
    pair.free();
}

TEST_CASE("cuda: a fault breaks its device until a reset, and no other") {
    const Session session({.n_devices = 2});
    Pair pair;
    add(pair.p[1], pair.p[0], 1, 32, pair.s[0]);  // no access
    expect(cudaErrorIllegalAddress, cudaStreamSynchronize(pair.s[0]));
    CHECK(contains(last_fault(), "kernel add on device 0"));
    void *p = nullptr;
    for (int i = 0; i < 2; ++i) {
        expect(cudaErrorIllegalAddress, cudaMalloc(&p, 1));
        expect(cudaErrorIllegalAddress, cudaStreamSynchronize(pair.s[0]));
        expect(cudaErrorIllegalAddress, cudaStreamQuery(pair.s[0]));
        expect(cudaErrorIllegalAddress, cudaDeviceSynchronize());
        expect(cudaErrorIllegalAddress, cudaGetLastError());
        const Error error =
            kimi::test::error_of([&] { add(pair.p[0], pair.p[0], 1, 32, pair.s[0]); });
        CHECK(contains(error.text, "illegal memory access"));
    }
    ok(cudaSetDevice(1));
    add(pair.p[1], pair.p[1], 1, 32, pair.s[1]);
    ok(cudaStreamSynchronize(pair.s[1]));
    CHECK(download(pair.p[1], 1)[0] == 12);
    ok(cudaSetDevice(0));
    ok(cudaDeviceReset());
    ok(cudaGetLastError() == cudaErrorIllegalAddress ? cudaSuccess : cudaErrorUnknown);
    ok(cudaGetLastError());
    pair.p[0] = on_device(std::vector<int>(32)), pair.s[0] = new_stream();
    pair.free();
}

TEST_CASE("cuda: the nth call fails, once or from then on, and calls are counted") {
    const Session session;
    void *p[3] = {};
    fail_nth("cudaMalloc", 2, cudaErrorMemoryAllocation);
    ok(cudaMalloc(&p[0], 8));
    expect(cudaErrorMemoryAllocation, cudaMalloc(&p[1], 8));
    ok(cudaMalloc(&p[1], 8));
    CHECK(n_calls("cudaMalloc") == 3);
    CHECK(n_calls("cudaFree") == 0);
    fail_nth("cudaMemset", 1, cudaErrorECCUncorrectable, true);
    for (int i = 0; i < 3; ++i) expect(cudaErrorECCUncorrectable, cudaMemset(p[0], 0, 8));
    fail_no_more();
    ok(cudaMemset(p[0], 0, 8));
    const std::uint64_t calls = n_calls("");
    fail_nth("", 3, cudaErrorUnknown);
    ok(cudaMemset(p[0], 0, 8));
    ok(cudaFree(p[0]));
    expect(cudaErrorUnknown, cudaFree(p[1]));
    CHECK(n_calls("") == calls + 3);
    ok(cudaFree(p[1]));
}

TEST_CASE("cuda: the nth launch is refused, or its kernel breaks the device") {
    const Session session;
    int *p = on_device(std::vector<int>(32));
    const cudaStream_t s = new_stream();
    fail_nth("launch", 2, cudaErrorLaunchFailure);
    add(p, p, 1, 32, s);
    const Error error = kimi::test::error_of([&] { add(p, p, 1, 32, s); });
    CHECK(error.status == KIMI_DEVICE_LOST);
    CHECK(contains(error.text, "kernel add: unspecified launch failure"));
    CHECK(n_calls("launch") == 2);
    ok(cudaStreamSynchronize(s));
    CHECK(n_kernels() == 1);
    fail_nth("kernel", 2, cudaErrorLaunchFailure);
    add(p, p, 1, 32, s);
    ok(cudaStreamSynchronize(s));
    add(p, p, 1, 32, s);
    add(p, p, 1, 32, s);
    expect(cudaErrorLaunchFailure, cudaStreamSynchronize(s));
    expect(cudaErrorLaunchFailure, cudaFree(p));
    ok(cudaDeviceReset());
}

TEST_CASE("cuda: what is left over is told") {
    start({});
    int *p = on_device<int>(3);
    const Live before = live();
    int *h = pinned<int>(1);
    const cudaStream_t s = new_stream();
    const cudaEvent_t e = new_event();
    CHECK(leaks(before) ==
          "host allocations: 0 before, now 1, streams: 0 before, now 1, events: 0 before, now 1");
    ok(cudaFreeHost(h));
    ok(cudaStreamDestroy(s));
    ok(cudaEventDestroy(e));
    CHECK(leaks(before) == "");
    CHECK(leaks() == "allocations: 0 before, now 1, bytes: 0 before, now 12");
    ok(cudaFree(p));
}

}  // namespace
}  // namespace kimi::cudart::test
