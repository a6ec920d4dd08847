#include "kernels/gather_rows.h"

#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

TEST_CASE("kernel: gather_rows copies the rows of its list, in fp32 and in bf16") {
    constexpr std::uint32_t kSource = 7;
    for (const std::uint32_t width : {4U, 100U, 1024U, 1028U, 7168U}) {
        for (const std::uint32_t n : {0U, 1U, 5U}) {
            const std::vector<std::uint32_t> list = {6, 0, 3, 3, 1};
            const std::vector<float> values = random_floats(kSource * width, width);
            const Buffer<float> x("x", values);
            Buffer<float> y("y", 5 * width);
            Buffer<bf16> y_bf16("y_bf16", 5 * width);
            Buffer<std::uint32_t> row("row", 5);
            row.upload(std::span(list).first(n));
            const Buffer<std::uint32_t> n_rows("n_rows", one(n));
            const GatherRowsParams both{x.data(),      row.data(), y.data(), y_bf16.data(),
                                        n_rows.data(), 5,          width};
            check_clean(test::run([&] { gather_rows(both, stream()); }));
            const auto got = y.download();
            const auto narrow = y_bf16.download();
            for (std::uint32_t i = 0; i < n * width; ++i) {
                const float expected = values[list[i / width] * width + i % width];
                REQUIRE(got[i] == expected);
                REQUIRE(narrow[i] == to_bf16(expected));
            }
        }
    }
}

#ifdef KIMI_SIMT
TEST_CASE("kernel: gather_rows moves each byte once") {
    constexpr std::uint32_t kWidth = 7168;
    const Buffer<float> x("x", random_floats(9 * kWidth, 1));
    const Buffer<float> y("y", 9 * kWidth);
    const Buffer<std::uint32_t> row("row", std::vector<std::uint32_t>{8, 7, 6, 5, 4, 3, 2, 1, 0});
    const Buffer<std::uint32_t> n_rows("n_rows", one(9));
    const Report r = test::run([&] {
        gather_rows({x.data(), row.data(), y.data(), nullptr, n_rows.data(), 9, kWidth}, stream());
    });
    const Counters &c = r.counters("gather_rows");
    print_cost("gather_rows, 9 rows of 7168", c, 9 * kWidth * 8);
    CHECK(c.buffer("x").loads.bytes == 9 * kWidth * 4);
    CHECK(c.buffer("x").loads.excess() == 0);
    CHECK(c.buffer("y").stores.excess() == 0);
}

TEST_CASE("kernel: gather_rows fits its budget") {
    check_budget("kernels/gather_rows.cu", {"gather_rows_kernel", 256, 0, 4});
}
#endif

}  // namespace
}  // namespace kimi::test
