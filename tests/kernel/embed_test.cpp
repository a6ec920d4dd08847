#include "kernels/embed.h"

#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

struct Embed {
    std::uint32_t n, max_rows, width, table_rows;
    std::int32_t first_token = 0;
    std::vector<bf16> table = random_bf16(std::size_t{table_rows} * width, 1);
    std::vector<std::int32_t> tokens = {};
    Buffer<bf16> table_device{"table", table};
    Buffer<float> y{"y", std::size_t{max_rows} * width};
    Buffer<bf16> y_bf16{"y_bf16", std::size_t{max_rows} * width};

    Report run(bool to_bf16) {
        Buffer<std::int32_t> token("token", max_rows);
        token.upload(tokens);
        const Buffer<std::uint32_t> n_rows("n_rows", one(n));
        return test::run([&] {
            embed({token.data(), table_device.data(), to_bf16 ? nullptr : y.data(),
                   to_bf16 ? y_bf16.data() : nullptr, n_rows.data(), max_rows, width, first_token,
                   table_rows},
                  stream());
        });
    }
    float expected(std::uint32_t row, std::uint32_t column) const {
        const std::int64_t at = std::int64_t{tokens[row]} - first_token;
        if (at < 0 || at >= table_rows) return 0;
        return to_float(table[static_cast<std::size_t>(at) * width + column]);
    }
};

TEST_CASE("kernel: embed copies rows of the table, in fp32 and in bf16") {
    for (const std::uint32_t width : {4U, 100U, 256U, 7168U}) {
        Embed t{5, 5, width, 7};
        t.tokens = {3, 0, 6, 3, 1};
        check_clean(t.run(false));
        check_clean(t.run(true));
        const auto y = t.y.download();
        const auto y_bf16 = t.y_bf16.download();
        for (std::uint32_t i = 0; i < t.n * width; ++i) {
            REQUIRE(y[i] == t.expected(i / width, i % width));
            REQUIRE(to_float(y_bf16[i]) == y[i]);
        }
    }
}

TEST_CASE("kernel: embed writes zeros for tokens that the rank does not hold") {
    Embed t{6, 6, 64, 4};
    t.first_token = 100;
    t.tokens = {100, 99, 104, 103, -1, 2'000'000'000};
    check_clean(t.run(true));
    const auto y = t.y_bf16.download();
    for (std::uint32_t i = 0; i < t.n * t.width; ++i)
        REQUIRE(to_float(y[i]) == t.expected(i / t.width, i % t.width));
}

TEST_CASE("kernel: embed leaves rows alone that are not in use") {
    for (const std::uint32_t n : {0U, 3U}) {
        Embed t{n, 8, 64, 4};
        t.tokens = std::vector<std::int32_t>(n, 1);  // the other tokens must not be read
        check_clean(t.run(false));
        const auto y = t.y.download();
        for (std::uint32_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i >= n * t.width));
    }
}

#ifdef KIMI_SIMT
TEST_CASE("kernel: embed moves each byte once") {
    Embed t{9, 9, 7168, 16};
    t.tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const Report r = t.run(false);
    const Counters &c = r.counters("embed");
    print_cost("embed, 9 rows of 7168 to fp32", c, 9 * 7168 * 6);
    CHECK(c.buffer("table").loads.bytes == 9 * 7168 * 2);
    CHECK(c.buffer("table").loads.excess() == 0);
    CHECK(c.buffer("y").stores.bytes == 9 * 7168 * 4);
    CHECK(c.buffer("y").stores.excess() == 0);
}

TEST_CASE("kernel: embed fits its budget") {
    check_budget("kernels/embed.cu", {"embed_kernel", embed_threads(7168), 0, 3});
}
#endif

}  // namespace
}  // namespace kimi::test
