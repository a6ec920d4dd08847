#include <atomic>

#include "tests/cudart/testing.h"

namespace kimi::cudart::test {
namespace {

// Two streams and what they may use.
struct Two {
    cudaStream_t a = new_stream(), b = new_stream();
    cudaEvent_t event = new_event();
    int *p = on_device(std::vector<int>(64)), *q = on_device<int>(64), *h = pinned<int>(64);

    void free() {
        ok(cudaStreamDestroy(a));
        ok(cudaStreamDestroy(b));
        ok(cudaEventDestroy(event));
        ok(cudaFree(p));
        ok(cudaFree(q));
        ok(cudaFreeHost(h));
    }
};

TEST_CASE("cuda: nothing runs before it is waited for, and then in order") {
    const Session session;
    Two two;
    *two.h = 9;
    add(two.p, two.p, 1, 64, two.a);
    add(two.p, two.p, 1, 64, two.a);
    ok(cudaMemcpyAsync(two.h, two.p, sizeof(int), cudaMemcpyDeviceToHost, two.a));
    CHECK(n_kernels() == 0);
    CHECK(*two.h == 9);
    expect(cudaErrorNotReady, cudaStreamQuery(two.a));
    ok(cudaStreamSynchronize(two.a));
    CHECK(*two.h == 2);
    CHECK(n_kernels() == 2);
    expect(cudaErrorNotReady, cudaGetLastError());
    two.free();
}

TEST_CASE("cuda: waiting for one stream does not run another") {
    const Session session;
    Two two;
    *two.h = 9;
    ok(cudaMemcpyAsync(two.h, two.p, sizeof(int), cudaMemcpyDeviceToHost, two.b));
    ok(cudaMemsetAsync(two.q, 0, 4, two.a));
    ok(cudaStreamSynchronize(two.a));
    CHECK(*two.h == 9);
    ok(cudaDeviceSynchronize());
    CHECK(*two.h == 0);
    two.free();
}

TEST_CASE("cuda: polling a stream or an event gets there") {
    const Session session;
    Two two;
    add(two.p, two.q, 1, 64, two.a);
    ok(cudaEventQuery(two.event));  // not recorded
    ok(cudaEventRecord(two.event, two.a));
    expect(cudaErrorNotReady, cudaEventQuery(two.event));
    while (cudaEventQuery(two.event) == cudaErrorNotReady) {
    }
    ok(cudaEventQuery(two.event));
    CHECK(download(two.q, 1)[0] == 1);
    add(two.q, two.p, 1, 64, two.a);
    while (cudaStreamQuery(two.a) == cudaErrorNotReady) {
    }
    CHECK(download(two.p, 1)[0] == 2);
    two.free();
}

TEST_CASE("cuda: an event orders two streams, and the host") {
    const Session session;
    Two two;
    add(two.p, two.q, 1, 64, two.a);
    ok(cudaEventRecord(two.event, two.a));
    ok(cudaStreamWaitEvent(two.b, two.event, 0));
    add(two.q, two.p, 1, 64, two.b);
    ok(cudaStreamSynchronize(two.b));
    CHECK(download(two.p, 1)[0] == 2);
    // Through the host.
    ok(cudaEventRecord(two.event, two.b));
    ok(cudaEventSynchronize(two.event));
    add(two.p, two.q, 1, 64, two.a);
    ok(cudaStreamSynchronize(two.a));
    CHECK(download(two.q, 1)[0] == 3);
    two.free();
}

TEST_CASE("cuda: an event counts as last recorded, and later work is not part of it") {
    const Session session;
    Two two;
    ok(cudaEventRecord(two.event, two.a));
    add(two.p, two.q, 1, 64, two.a);
    ok(cudaStreamWaitEvent(two.b, two.event, 0));
    add(two.q, two.p, 1, 64, two.b);  // reads what the first one writes
    ok(cudaStreamSynchronize(two.a));
    expect(cudaErrorIllegalAddress, cudaStreamSynchronize(two.b));
    CHECK(contains(last_fault(), "nothing orders kernel add before"));
    ok(cudaDeviceReset());
    ok(cudaFreeHost(two.h));
}

// Every pair of a reader or writer on a with one on b.
TEST_CASE("cuda: work of two streams on the same bytes without an order is a fault") {
    enum class Work { read, write, copy_from, copy_to, fill };
    const auto enqueue = [](Work work, const Two &two, cudaStream_t s, int *own) {
        switch (work) {
            case Work::read:
                return add(two.p, own, 1, 32, s);
            case Work::write:
                return add(own, two.p, 1, 32, s);
            case Work::copy_from:
                return ok(cudaMemcpyAsync(own, two.p, 4, cudaMemcpyDeviceToDevice, s));
            case Work::copy_to:
                return ok(cudaMemcpyAsync(two.p, own, 4, cudaMemcpyDeviceToDevice, s));
            case Work::fill:
                return ok(cudaMemsetAsync(two.p, 0, 4, s));
        }
    };
    const auto writes = [](Work work) { return work != Work::read && work != Work::copy_from; };
    for (const Work a : {Work::read, Work::write, Work::copy_from, Work::copy_to, Work::fill}) {
        for (const Work b : {Work::read, Work::write, Work::copy_from, Work::copy_to, Work::fill}) {
            start({});
            Two two;
            int *of_a = on_device(std::vector<int>(32)), *of_b = on_device(std::vector<int>(32));
            enqueue(a, two, two.a, of_a);
            enqueue(b, two, two.b, of_b);
            ok(cudaStreamSynchronize(two.a));
            const bool race = writes(a) || writes(b);
            CAPTURE(static_cast<int>(a));
            CAPTURE(static_cast<int>(b));
            expect(race ? cudaErrorIllegalAddress : cudaSuccess, cudaStreamSynchronize(two.b));
            if (race) CHECK(contains(last_fault(), "nothing orders"));
            start({});
        }
    }
}

TEST_CASE("cuda: the default stream is refused") {
    const Session session;
    Two two;
    for (const cudaStream_t s : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
        expect(cudaErrorInvalidResourceHandle,
               cudaMemcpyAsync(two.q, two.p, 4, cudaMemcpyDeviceToDevice, s));
        CHECK(contains(last_fault(), "default stream"));
        expect(cudaErrorInvalidResourceHandle, cudaMemsetAsync(two.q, 0, 4, s));
        expect(cudaErrorInvalidResourceHandle, cudaEventRecord(two.event, s));
        expect(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(s));
        const Error error = kimi::test::error_of([&] { add(two.p, two.q, 1, 64, s); });
        CHECK(contains(error.text, "kernel add: invalid resource handle"));
    }
    two.free();
}

TEST_CASE("cuda: a synchronous copy waits for blocking streams only") {
    const Session session;
    Two two;
    const cudaStream_t blocking = new_stream(cudaStreamDefault);
    add(two.p, two.q, 1, 64, blocking);
    CHECK(download(two.q, 64) == std::vector<int>(64, 1));
    add(two.p, two.q, 2, 64, two.a);
    const int value = 0;
    ok(cudaMemcpy(two.q, &value, 4, cudaMemcpyHostToDevice));
    expect(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    ok(cudaDeviceReset());
    ok(cudaFreeHost(two.h));
}

TEST_CASE("cuda: work of a destroyed stream still runs") {
    const Session session;
    Two two;
    const cudaStream_t s = new_stream();
    add(two.p, two.q, 3, 64, s);
    ok(cudaStreamDestroy(s));
    expect(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(s));
    ok(cudaDeviceSynchronize());
    CHECK(download(two.q, 1)[0] == 3);
    two.free();
}

TEST_CASE("cuda: time passes between events that keep it, as the machine says") {
    const Session session({.operation_us = 250});
    Two two;
    const cudaEvent_t from = new_event(cudaEventDefault), to = new_event(cudaEventDefault);
    float ms = -1;
    expect(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, from, to));
    ok(cudaEventRecord(from, two.a));
    add(two.p, two.q, 3, 64, two.a);
    ok(cudaMemsetAsync(two.q, 0, 4, two.a));
    ok(cudaEventRecord(to, two.a));
    expect(cudaErrorNotReady, cudaEventElapsedTime(&ms, from, to));
    ok(cudaEventSynchronize(to));
    ok(cudaEventElapsedTime(&ms, from, to));
    CHECK(ms == 0.5F);
    ok(cudaEventRecord(two.event, two.a));
    ok(cudaEventSynchronize(two.event));
    expect(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, from, two.event));
    ok(cudaEventDestroy(from));
    ok(cudaEventDestroy(to));
    two.free();
}

TEST_CASE("cuda: a host function runs in order and must not call CUDA") {
    const Session session;
    Two two;
    struct Seen {
        int value;
        const int *from;
        cudaError_t inside;
    } seen{0, two.h, cudaSuccess};
    add(two.p, two.q, 4, 64, two.a);
    ok(cudaMemcpyAsync(two.h, two.q, 4, cudaMemcpyDeviceToHost, two.a));
    ok(cudaLaunchHostFunc(
        two.a,
        [](void *p) {
            auto &s = *static_cast<Seen *>(p);
            s.value = *s.from;
            s.inside = cudaDeviceSynchronize();
        },
        &seen));
    ok(cudaStreamSynchronize(two.a));
    CHECK(seen.value == 4);
    CHECK(seen.inside == cudaErrorNotPermitted);
    two.free();
}

}  // namespace
}  // namespace kimi::cudart::test
