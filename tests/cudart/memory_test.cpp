#include <cstring>

#include "tests/cudart/testing.h"

namespace kimi::cudart::test {
namespace {

TEST_CASE("cuda: a device has its capacity of memory and no more") {
    const Session session({.memory_bytes = 1 << 20});
    std::size_t free = 0, total = 0;
    auto *p = on_device<std::byte>(1 << 19);
    ok(cudaMemGetInfo(&free, &total));
    CHECK(total == 1 << 20);
    CHECK(free == 1 << 19);
    void *more = nullptr;
    expect(cudaErrorMemoryAllocation, cudaMalloc(&more, (1 << 19) + 1));
    expect(cudaErrorMemoryAllocation, cudaGetLastError());
    ok(cudaGetLastError());
    ok(cudaFree(p));
    ok(cudaMalloc(&more, 1 << 20));
    ok(cudaFree(more));
    ok(cudaFree(nullptr));
    expect(cudaErrorInvalidValue, cudaFree(more));
}

TEST_CASE("cuda: copies go there and back, also by rows") {
    const Session session;
    const std::vector<int> values = {1, 2, 3, 4, 5, 6};
    int *p = on_device(values), *q = on_device<int>(6);
    const cudaStream_t s = new_stream();
    ok(cudaMemcpyAsync(q, p, 6 * sizeof(int), cudaMemcpyDeviceToDevice, s));
    ok(cudaStreamSynchronize(s));
    CHECK(download(q, 6) == values);
    // Columns 1 and 2 of two rows of 3 to columns 0 and 1.
    ok(cudaMemcpy2DAsync(q, 12, p + 1, 12, 8, 2, cudaMemcpyDeviceToDevice, s));
    ok(cudaStreamSynchronize(s));
    CHECK(download(q, 6) == std::vector<int>{2, 3, 3, 5, 6, 6});
    ok(cudaMemsetAsync(q, 0, 4, s));
    ok(cudaStreamSynchronize(s));
    CHECK(download(q, 2) == std::vector<int>{0, 3});
    ok(cudaStreamDestroy(s));
    ok(cudaFree(p));
    ok(cudaFree(q));
}

TEST_CASE("cuda: copies are refused outside an allocation, in the wrong direction, after free") {
    const Session session;
    int *p = on_device<int>(4);
    int host[8] = {};
    const cudaStream_t s = new_stream();
    const auto refused = [&](void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind) {
        expect(cudaErrorInvalidValue, cudaMemcpyAsync(to, from, bytes, kind, s));
        expect(cudaErrorInvalidValue, cudaMemcpy(to, from, bytes, kind));
    };
    refused(p, host, 17, cudaMemcpyHostToDevice);
    CHECK(contains(last_fault(), "17 bytes at byte 0"));
    refused(p + 2, host, 12, cudaMemcpyHostToDevice);
    refused(host, p, 16, cudaMemcpyHostToDevice);
    refused(host, host + 4, 16, cudaMemcpyHostToDevice);
    refused(p, host, 16, cudaMemcpyDeviceToHost);
    expect(cudaErrorInvalidValue,
           cudaMemcpy2DAsync(p, 4, host, 8, 8, 1, cudaMemcpyHostToDevice, s));
    expect(cudaErrorInvalidValue, cudaMemset(p, 0, 17));
    expect(cudaErrorInvalidValue, cudaMemset(host, 0, 4));
    ok(cudaFree(p));
    refused(p, host, 16, cudaMemcpyHostToDevice);
    ok(cudaStreamDestroy(s));
}

TEST_CASE("cuda: fresh memory is poison for the host, and a copy of it stays so") {
    const Session session;
    int *p = on_device<int>(2), *q = on_device<int>(2);
    const int one = 1;
    ok(cudaMemcpy(p, &one, sizeof one, cudaMemcpyHostToDevice));
    ok(cudaMemcpy(q, p, 8, cudaMemcpyDeviceToDevice));
    CHECK(download(q, 2) == std::vector<int>{1, -1});
    const cudaStream_t s = new_stream();
    ok(cudaDeviceSynchronize());
    add(q, p, 1, 2, s);
    expect(cudaErrorIllegalAddress, cudaStreamSynchronize(s));
    CHECK(contains(last_fault(), "unwritten"));
    ok(cudaDeviceReset());
}

TEST_CASE("cuda: pageable memory is read at the call, pinned memory when the copy runs") {
    const Session session;
    int *p = on_device<int>(1), *h = pinned<int>(1);
    const cudaStream_t s = new_stream();
    int pageable = 1;
    ok(cudaMemcpyAsync(p, &pageable, sizeof(int), cudaMemcpyHostToDevice, s));
    pageable = 2;
    ok(cudaStreamSynchronize(s));
    CHECK(download(p, 1)[0] == 1);
    *h = 1;
    ok(cudaMemcpyAsync(p, h, sizeof(int), cudaMemcpyHostToDevice, s));
    *h = 2;
    ok(cudaStreamSynchronize(s));
    CHECK(download(p, 1)[0] == 2);
    // To the host: pageable memory is there when the call returns, pinned memory is not.
    ok(cudaMemcpyAsync(&pageable, p, sizeof(int), cudaMemcpyDeviceToHost, s));
    CHECK(pageable == 2);
    *h = 7;
    ok(cudaMemcpyAsync(h, p, sizeof(int), cudaMemcpyDeviceToHost, s));
    CHECK(*h == 7);
    ok(cudaStreamSynchronize(s));
    CHECK(*h == 2);
    ok(cudaStreamDestroy(s));
    ok(cudaFreeHost(h));
    ok(cudaFree(p));
}

TEST_CASE("cuda: a kernel that uses released memory breaks the device") {
    const Session session;
    int *p = on_device<int>(32);
    const cudaStream_t s = new_stream();
    const simt::Global<int> kept(p);
    ok(cudaFree(p));
    launch_each("late", 32, s, [kept](std::ptrdiff_t i) { kept[i] = 1; });
    expect(cudaErrorIllegalAddress, cudaStreamSynchronize(s));
    CHECK(contains(last_fault(), "released memory"));
    ok(cudaDeviceReset());
}

TEST_CASE("cuda: freeing waits for the work of the device") {
    const Session session;
    int *p = on_device(std::vector<int>(32)), *q = on_device<int>(32);
    const cudaStream_t s = new_stream();
    add(p, q, 5, 32, s);
    ok(cudaFree(p));
    CHECK(download(q, 32) == std::vector<int>(32, 5));
    ok(cudaStreamDestroy(s));
    ok(cudaFree(q));
}

}  // namespace
}  // namespace kimi::cudart::test
