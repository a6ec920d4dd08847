// Planted faults in accesses to memory, each with a clean twin.
#include <vector>

#include "tests/simt/testing.h"

namespace kimi::simt::host {
namespace {

std::vector<float> numbers(std::size_t n) {
    std::vector<float> v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i);
    return v;
}

struct Arrays {
    Buffer<float> x{"x", numbers(256)};
    Buffer<float> y{"y", 256};
    Global<const float> in = x.data();
    Global<float> out = y.data();
};

TEST_CASE("simt: a kernel that copies an array copies it and is clean") {
    Arrays a;
    const Options options{.outputs = {&a.y}};
    check_clean(run_body(
        {2}, {128},
        [&] {
            const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            a.out[i] = a.in[i];
        },
        options));
    CHECK(a.y.download() == numbers(256));
}

TEST_CASE("simt: reads and writes outside a global buffer are found") {
    Arrays a;
    const auto past = run_body({1}, {32}, [&] { a.out[tid()] = a.in[tid() + 225]; });
    check_fault(past, FaultKind::kOutOfBounds, "buffer x at byte 1024");
    CHECK(past.faults[0].thread == Dim3{31, 0, 0});
    CHECK(past.faults[0].kernel == "body");
    CHECK(test::contains(past.faults[0].site.file, "memory_test.cpp"));

    check_fault(run_body({1}, {32}, [&] { a.out[static_cast<int>(tid()) - 1] = 1; }),
                FaultKind::kOutOfBounds, "position -4");
    check_fault(run_body({1}, {32}, [&] { store(a.out + 254, float4{}); }), FaultKind::kOutOfBounds,
                "write of 16 bytes");
    check_fault(run_body({1}, {32}, [&] { cp_async<16>(dynamic_shared<float>(0, 4), a.in + 256); }),
                FaultKind::kOutOfBounds, "dynamic_shared");
    check_fault(
        run_body({1}, {1}, 16, [&] { cp_async<16>(dynamic_shared<float>(0, 4), a.in + 256); }),
        FaultKind::kOutOfBounds, "buffer x");
}

TEST_CASE("simt: a pointer into one buffer does not reach another one") {
    Arrays a;
    const std::ptrdiff_t distance =
        reinterpret_cast<std::intptr_t>(a.y.data()) - reinterpret_cast<std::intptr_t>(a.x.data());
    check_fault(run_body({1}, {1},
                         [&] {
                             const float v = a.in[distance / 4];
                             a.out[0] = v;
                         }),
                FaultKind::kOutOfBounds, "buffer x");
}

TEST_CASE("simt: null pointers, host memory and released buffers are found") {
    Arrays a;
    Global<const float> nowhere = nullptr, host, old;
    CHECK(nowhere == nullptr);
    CHECK((!nowhere && a.in != nullptr && a.in + 1 > a.in));
    const std::vector<float> v(4);
    host = v.data();
    {
        const Buffer<float> gone("gone", v);
        old = gone.data();
    }
    check_fault(run_body({1}, {1}, [&] { a.out[0] = nowhere[0]; }), FaultKind::kOutOfBounds,
                "null");
    check_fault(run_body({1}, {1}, [&] { a.out[0] = host[0]; }), FaultKind::kOutOfBounds,
                "outside device memory");
    check_fault(run_body({1}, {1}, [&] { a.out[0] = old[0]; }), FaultKind::kOutOfBounds,
                "released memory");
}

TEST_CASE("simt: vector accesses have to be aligned") {
    Arrays a;
    check_clean(
        run_body({1}, {16}, [&] { store(a.out + 4 * tid(), load<float4>(a.in + 4 * tid())); }));
    check_fault(run_body({1}, {16}, [&] { store(a.out, load<float4>(a.in + 2)); }),
                FaultKind::kMisaligned, "multiple of 16");
    check_fault(run_body({1}, {16}, [&] { store(a.out + 3, float2{}); }), FaultKind::kMisaligned);
    check_fault(run_body({1}, {1}, 64, [&] { store(dynamic_shared<float>(0, 16) + 1, float2{}); }),
                FaultKind::kMisaligned, "(shared)");
    check_fault(
        run_body({1}, {1}, 64, [&] { cp_async<8>(dynamic_shared<float>(0, 16), a.in + 1); }),
        FaultKind::kMisaligned);
}

TEST_CASE("simt: accesses outside a shared array are found, also inside the block's memory") {
    const auto first_array = [](unsigned i) {
        dynamic_shared<float>(0, 32)[i] = 1;
        dynamic_shared<float>(128, 32)[i % 32] = 1;
    };
    check_clean(run_body({1}, {32}, 256, [&] { first_array(tid()); }));
    check_fault(run_body({1}, {32}, 256, [&] { first_array(tid() + 1); }), FaultKind::kOutOfBounds,
                "byte 128 of a shared array of 128");
    check_fault(run_body({1}, {32},
                         [] {
                             KIMI_SHARED(float, part, 31);
                             part[tid()] = 1;
                         }),
                FaultKind::kOutOfBounds, "shared array of 124");
    check_fault(run_body({1}, {32}, 256,
                         [] {
                             const auto rows = dynamic_shared<bf16>(0, 128);
                             store(reinterpret<float2>(rows) + tid(), float2{});
                             __syncwarp();
                             FragA a;
                             ldmatrix_x4(a, rows + 8 * tid());
                         }),
                FaultKind::kOutOfBounds, "ldmatrix");
}

TEST_CASE("simt: reads of memory that nobody wrote are found") {
    Arrays a;
    Buffer<float> half("half", 32);
    half.upload(std::vector<float>(16, 1.0F));
    Global<const float> h = half.data();
    check_clean(run_body({1}, {16}, [&] { a.out[tid()] = h[tid()]; }));
    check_fault(run_body({1}, {17}, [&] { a.out[tid()] = h[tid()]; }), FaultKind::kUnwrittenGlobal,
                "buffer half at byte 64");

    const auto shared = [&](unsigned n_written) {
        return run_body({1}, {32}, 128, [&, n_written] {
            const auto s = dynamic_shared<float>(0, 32);
            if (tid() < n_written) s[tid()] = 1;
            __syncthreads();
            a.out[tid()] = s[31 - tid()];
        });
    };
    check_clean(shared(32));
    check_fault(shared(31), FaultKind::kUnwrittenShared, "(shared) at byte 124");
    check_fault(run_body({2}, {32}, 128,
                         [&] {  // not even what the last block left there
                             const auto s = dynamic_shared<float>(0, 32);
                             if (blockIdx.x == 0) s[tid()] = 1;
                             a.out[32 * blockIdx.x + tid()] = s[tid()];
                         }),
                FaultKind::kUnwrittenShared, "block (1,0,0)");
}

TEST_CASE("simt: poisoned memory counts as unwritten again") {
    Arrays a;
    a.x.poison(40, 8);
    check_fault(run_body({1}, {32}, [&] { a.out[tid()] = a.in[tid()]; }),
                FaultKind::kUnwrittenGlobal, "byte 40");
}

TEST_CASE("simt: an output that is not written completely is found") {
    Arrays a;
    const Options options{.outputs = {&a.y}};
    check_fault(run_body(
                    {1}, {255}, [&] { a.out[tid()] = 0; }, options),
                FaultKind::kUnwrittenOutput, "buffer y, 4 of 1024 bytes, the first at 1020");
    check_clean(run_body(
        {1}, {256}, [&] { a.out[tid()] = 0; }, options));
}

TEST_CASE("simt: two blocks that write the same bytes are found") {
    Arrays a;
    const auto write_pairs = [&] { a.out[blockIdx.x * 31 + tid()] = 1; };
    check_fault(run_body({2}, {32}, write_pairs), FaultKind::kWriteOverlap, "buffer y at byte 124");
    check_clean(run_body({2}, {31}, write_pairs));
    a.y.memory().may_overlap = true;
    check_clean(run_body({2}, {32}, write_pairs));
}

TEST_CASE("simt: read-only loads of memory that the launch writes are found") {
    Arrays a;
    Global<float> y = a.y.data();
    check_fault(run_body({1}, {1},
                         [&] {
                             y[0] = 1;
                             y[1] = load_readonly<float>(y);
                         }),
                FaultKind::kReadOnlyWritten, "buffer y");
    check_clean(run_body({1}, {1}, [&] {
        y[0] = 1;
        y[1] = load<float>(y);
    }));
    check_clean(run_body({1}, {1}, [&] { y[2] = load_readonly<float>(y); }));
}

TEST_CASE("simt: launches that CUDA refuses are found") {
    const auto nothing = [] {};
    check_fault(run_body({0}, {32}, nothing), FaultKind::kBadLaunch, "empty");
    check_fault(run_body({1}, {1025}, nothing), FaultKind::kBadLaunch, "block too large");
    check_fault(run_body({1}, {32}, kMaxSharedBytes + 1, nothing), FaultKind::kBadLaunch,
                "101376 exist");
    check_clean(run_body({1}, {32}, kMaxSharedBytes, nothing));
    check_fault(run_body({1}, {32}, kMaxSharedBytes,
                         [] {
                             KIMI_SHARED(float, one, 1);
                             one[0] = 1;
                         }),
                FaultKind::kBadLaunch, "static and dynamic");
}

TEST_CASE("simt: device memory cannot be used outside a kernel") {
    Arrays a;
    CHECK(test::contains(test::error_of([&] { a.out[0] = 1; }).text, "outside a kernel"));
    CHECK(test::contains(test::error_of([] { submit(launch_of({1}, {1}, 0, [] {})); }).text,
                         "without a sink"));
}

TEST_CASE("simt: what a kernel throws comes out of run") {
    Arrays a;
    const auto throws = [&] {
        run_body({4}, {64}, [&] {
            a.out[blockIdx.x * 64 + tid()] = 0;
            if (tid() == 40) fail(KIMI_IO, "on purpose");
        });
    };
    CHECK(test::error_of(throws).text == "on purpose");
    CHECK(test::error_of(throws).text == "on purpose");  // nothing is left of the first time
}

}  // namespace
}  // namespace kimi::simt::host
