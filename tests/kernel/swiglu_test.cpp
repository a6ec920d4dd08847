#include "kernels/swiglu.h"

#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

struct Swiglu {
    std::uint32_t n, max_rows, width;
    std::vector<float> gate = random_floats(std::size_t{n} * width, 1, 8);
    std::vector<float> up = random_floats(std::size_t{n} * width, 2, 4);
    Buffer<bf16> y{"y", std::size_t{max_rows} * width};

    Report run() {
        Buffer<float> g("gate", std::size_t{max_rows} * width);
        Buffer<float> u("up", std::size_t{max_rows} * width);
        g.upload(gate);
        u.upload(up);
        const Buffer<std::uint32_t> n_rows("n_rows", one(n));
        return test::run([&] {
            swiglu({g.data(), u.data(), y.data(), n_rows.data(), max_rows, width}, stream());
        });
    }
    std::vector<float> expected() const {
        std::vector<float> out(gate.size());
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<float>(gate[i] / (1 + std::exp(-double{gate[i]})) * up[i]);
        return out;
    }
};

TEST_CASE("kernel: swiglu is right, whatever the width") {
    for (const std::uint32_t width : {4U, 36U, 508U, 512U, 516U, 2304U}) {
        for (const std::uint32_t n : {1U, 3U}) {
            Swiglu t{n, n, width};
            check_clean(t.run());
            check_close(widened(t.y.download()), t.expected(), 32 * kBf16Error);
        }
    }
}

TEST_CASE("kernel: swiglu of extreme gates is finite, and NaN stays NaN") {
    Swiglu t{1, 1, 8};
    t.gate = {-1e30F, -100, -0.0F, 0, 100, 1e30F, std::nanf(""), -INFINITY};
    t.up = std::vector<float>(8, 1);
    check_clean(t.run());
    const auto y = widened(t.y.download());
    for (int i = 0; i < 4; ++i) CHECK(y[i] == 0);
    CHECK(y[4] == 100);
    CHECK(y[5] == doctest::Approx(1e30).epsilon(kBf16Error));
    CHECK(std::isnan(y[6]));
    CHECK(std::isnan(y[7]));  // -inf / inf
}

TEST_CASE("kernel: swiglu leaves rows alone that are not in use") {
    for (const std::uint32_t n : {0U, 2U}) {
        Swiglu t{n, 5, 64};
        check_clean(t.run());
        const auto y = widened(t.y.download());
        for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i >= n * 64));
    }
}

#ifdef KIMI_SIMT
TEST_CASE("kernel: swiglu moves each byte once") {
    Swiglu t{9, 9, 2304};
    const Report r = t.run();
    const Counters &c = r.counters("swiglu");
    print_cost("swiglu, 9 rows of 2304", c, 9 * 2304 * 10);
    CHECK(c.buffer("gate").loads.bytes == 9 * 2304 * 4);
    CHECK(c.global_loads().excess() == 0);
    CHECK(c.buffer("y").stores.bytes == 9 * 2304 * 2);
    CHECK(c.buffer("y").stores.excess() == 0);
}

TEST_CASE("kernel: swiglu fits its budget") {
    check_budget("kernels/swiglu.cu", {"swiglu_kernel", 128, 0, 12});
}
#endif

}  // namespace
}  // namespace kimi::test
