// The example kernels: results, counters, what ptxas says of them, and how fast the executor is.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "tests/simt/matmul.h"
#include "tests/simt/ptxas.h"
#include "tests/simt/testing.h"
#include "tests/simt/wrappers.h"

namespace kimi::simt::host {
namespace {

std::vector<bf16> random_bf16(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    std::vector<bf16> v(n);
    for (bf16 &x : v) x = float_to_bf16(value(random));
    return v;
}

struct Matmul {
    int m, n, k;
    std::vector<bf16> a = random_bf16(static_cast<std::size_t>(m) * k, 1);
    std::vector<bf16> b = random_bf16(static_cast<std::size_t>(n) * k, 2);
    Buffer<bf16> a_device{"a", a}, b_device{"b", b};
    Buffer<float> y{"y", static_cast<std::size_t>(m) * n};

    Report run(Options options = {}) {
        options.outputs = {&y};
        return host::run(
            [&] {
                matmul({a_device.data(), b_device.data(), y.data(), m, n, k}, nullptr);
            },
            options);
    }
    std::vector<float> expected() const {
        std::vector<float> out;
        for (int i = 0; i < m; ++i) {
            for (int j = 0; j < n; ++j) {
                double sum = 0;
                for (int l = 0; l < k; ++l) {
                    sum += double{bf16_to_float(a[i * k + l])} * bf16_to_float(b[j * k + l]);
                }
                out.push_back(static_cast<float>(sum));
            }
        }
        return out;
    }
};

TEST_CASE("simt: the example matmul is right at the edges of its tiles") {
    for (const int m : {1, 15, 64, 65, 130}) {
        for (const int k : {32, 64, 96, 160}) {
            Matmul t{m, 128, k};
            check_clean(t.run());
            test::check_close(t.y.download(), t.expected(), 1e-5 * k);
        }
    }
}

TEST_CASE("simt: the example matmul moves the bytes that it must") {
    Matmul t{128, 128, 256};
    const Report r = t.run();
    check_clean(r);
    const Counters &c = r.counters("matmul");
    CHECK(c.buffer("a").distinct_bytes_read == t.a_device.size_bytes());
    CHECK(c.buffer("b").distinct_bytes_read == t.b_device.size_bytes());
    CHECK(c.buffer("a").loads.bytes == 2 * t.a_device.size_bytes());  // once per column of tiles
    CHECK(c.buffer("y").stores.bytes == t.y.size_bytes());
    CHECK(c.global_loads().excess() == 0);
    CHECK(c.instructions.mma_bf16 == 128 * 128 * 256 / (16 * 8 * 16));
    CHECK(c.shared[static_cast<std::size_t>(Op::kLdmatrix)].excess() == 0);
}

TEST_CASE("simt: wrong arguments of the example are found") {
    Matmul t{64, 64, 64};
    const auto run_with = [&](int n, int k) {
        return run([&] {
            matmul({t.a_device.data(), t.b_device.data(), t.y.data(), 64, n, k}, nullptr);
        });
    };
    check_fault(run_with(128, 64), FaultKind::kOutOfBounds, "buffer y");
    check_fault(run_with(64, 96), FaultKind::kOutOfBounds, "matmul.cu");
}

TEST_CASE("simt: every wrapper does what it says") {
    std::vector<float> numbers(128);
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    std::vector<bf16> halves;
    for (const float x : numbers) halves.push_back(float_to_bf16(x));
    const Buffer<float> x("x", numbers);
    const Buffer<bf16> half("half", halves);
    const Buffer<std::uint32_t> flag("flag", std::vector<std::uint32_t>(8, 0));
    const Buffer<float> y("y", 64);
    check_clean(run([&] {
        use_wrappers({x.data(), half.data(), flag.data(), y.data()}, nullptr);
    }));

    // Row 0 of A is 0..7 and 0..7; column 0 of B is 0..7 and 64..71 with two zeros.
    float row_times_column = 0;
    for (int i = 0; i < 8; ++i) {
        row_times_column += static_cast<float>(i * i + i * (i % 4 == 3 ? 0 : 64 + i));
    }
    const std::vector<float> expected = {17,
                                         16256,
                                         2,
                                         5,
                                         8,
                                         9,
                                         10,
                                         11,
                                         4,
                                         3,
                                         18,
                                         -410.25F,
                                         11,
                                         5,
                                         16,
                                         3,
                                         84,
                                         21,
                                         row_times_column,
                                         3,
                                         0,
                                         39,
                                         128,
                                         1};
    auto got = y.download();
    got.resize(expected.size());
    CHECK(got == expected);
}

TEST_CASE("simt: ptxas reports are read") {
    const auto kernels = parse_ptxas(
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function '_Z1kv' for 'sm_120'\n"
        "ptxas info    : Function properties for _Z1kv\n"
        "    24 bytes stack frame, 16 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size, 512 "
        "bytes smem\n");
    REQUIRE(kernels.size() == 1);
    CHECK(kernels[0].name == "_Z1kv");
    CHECK(kernels[0].architecture == "sm_120");
    CHECK(kernels[0].registers == 255);
    CHECK(kernels[0].stack_bytes == 24);
    CHECK(kernels[0].spill_store_bytes == 16);
    CHECK(kernels[0].spill_load_bytes == 12);
    CHECK(kernels[0].static_shared_bytes == 512);
}

TEST_CASE("simt: the example kernels compile for both architectures without spills") {
    for (const char *source : {"tests/simt/matmul.cu", "tests/simt/wrappers.cu"}) {
        const auto kernels = ptxas_of(source);
        if (kernels.empty()) {
            MESSAGE("built without nvcc: nothing to check");
            return;
        }
        REQUIRE(kernels.size() == 2);
        for (const PtxasKernel &k : kernels) {
            CHECK((k.architecture == "sm_90" || k.architecture == "sm_120"));
            CHECK(k.registers > 0);
            CHECK(k.registers <= 255);
            CHECK(k.spill_store_bytes == 0);
            CHECK(k.spill_load_bytes == 0);
        }
    }
}

TEST_CASE("simt: speed of the executor") {
    Matmul t{64, 512, 512};
    const auto start = std::chrono::steady_clock::now();
    check_clean(t.run());
    const double s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("simt: matmul with all checks, %.2f million mma/s on one thread\n",
                64.0 * 512 * 512 / 2048 / s * 1e-6);
}

}  // namespace
}  // namespace kimi::simt::host
