#include "kernels/rms_norm.h"

#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

struct RmsNorm {
    std::uint32_t n, max_rows, width;
    bool with_addend = false;
    std::vector<std::uint32_t> row = {};
    std::uint32_t x_rows = max_rows;
    float eps = 1e-5F;
    std::vector<float> x = random_floats(std::size_t{x_rows} * width, 1, 3);
    std::vector<bf16> addend = random_bf16(std::size_t{x_rows} * width, 2);
    std::vector<bf16> weight = random_bf16(width, 3, 2);
    Buffer<float> x_device{"x", std::size_t{x_rows} * width};
    Buffer<bf16> y{"y", std::size_t{max_rows} * width};

    std::uint32_t row_of(std::uint32_t i) const { return row.empty() ? i : row[i]; }

    Report run() {
        // Only the rows in use can be read.
        Buffer<bf16> add("addend", std::size_t{x_rows} * width);
        Buffer<std::uint32_t> rows("row", max_rows);
        rows.upload(row);
        for (std::uint32_t i = 0; i < n; ++i) {
            const std::size_t at = std::size_t{row_of(i)} * width;
            x_device.upload({x.data() + at, width}, at);
            add.upload({addend.data() + at, width}, at);
        }
        const Buffer<bf16> w("weight", weight);
        const Buffer<std::uint32_t> n_rows("n_rows", one(n));
        return test::run([&] {
            rms_norm({x_device.data(), with_addend ? add.data() : nullptr,
                      row.empty() ? nullptr : rows.data(), w.data(), y.data(), n_rows.data(),
                      max_rows, width, eps},
                     stream());
        });
    }
    void check() const {
        const auto got = widened(y.download());
        const auto got_x = x_device.download();
        for (std::uint32_t i = 0; i < n; ++i) {
            const std::size_t at = std::size_t{row_of(i)} * width;
            double squares = 0;
            std::vector<float> sum(width), expected(width);
            for (std::uint32_t c = 0; c < width; ++c) {
                sum[c] = x[at + c] + (with_addend ? to_float(addend[at + c]) : 0);
                squares += double{sum[c]} * sum[c];
            }
            const double factor = 1 / std::sqrt(squares / width + eps);
            double largest = 0;
            for (std::uint32_t c = 0; c < width; ++c) {
                expected[c] = static_cast<float>(sum[c] * factor * to_float(weight[c]));
                largest = std::max(largest, std::fabs(double{expected[c]}));
            }
            check_close({got.data() + std::size_t{i} * width, width}, expected,
                        largest * kBf16Error);
            check_close({got_x.data() + at, width}, sum, 0);
        }
    }
};

TEST_CASE("kernel: rms_norm is right at every width, with and without an addend") {
    for (const std::uint32_t width : {4U, 124U, 128U, 132U, 256U, 512U, 1536U, 7168U, 8192U}) {
        for (const bool with_addend : {false, true}) {
            RmsNorm t{2, 2, width, with_addend};
            check_clean(t.run());
            t.check();
        }
    }
}

TEST_CASE("kernel: rms_norm of chosen rows reads no others") {
    RmsNorm t{3, 4, 256, true, {6, 0, 5}, 8};
    check_clean(t.run());
    t.check();
}

TEST_CASE("kernel: rms_norm of zeros is zero, and rows that are not in use stay as they were") {
    RmsNorm t{2, 4, 64};
    t.x = std::vector<float>(t.x.size(), 0);
    check_clean(t.run());
    const auto y = widened(t.y.download());
    for (std::size_t i = 0; i < y.size(); ++i) {
        if (i < 2 * 64) {
            CHECK(y[i] == 0);
        } else {
            CHECK(std::isnan(y[i]));
        }
    }
    check_clean(RmsNorm{0, 4, 64}.run());
}

TEST_CASE("kernel: a row of rms_norm has the same bits alone and among others") {
    RmsNorm alone{1, 1, 7168, true}, among{5, 5, 7168, true};
    std::copy(alone.x.begin(), alone.x.end(), among.x.begin() + 3 * 7168);
    std::copy(alone.addend.begin(), alone.addend.end(), among.addend.begin() + 3 * 7168);
    check_clean(alone.run());
    check_clean(among.run());
    const auto a = alone.y.download(), b = among.y.download();
    CHECK(std::equal(a.begin(), a.end(), b.begin() + 3 * 7168));
}

#ifdef KIMI_SIMT
TEST_CASE("kernel: rms_norm moves each byte once") {
    RmsNorm t{9, 9, 7168, true};
    const Report r = t.run();
    const Counters &c = r.counters("rms_norm");
    print_cost("rms_norm with addend, 9 rows of 7168", c, 9 * 7168 * (4 + 4 + 2 + 2) + 7168 * 2);
    CHECK(c.buffer("x").loads.bytes == 9 * 7168 * 4);
    CHECK(c.buffer("addend").loads.bytes == 9 * 7168 * 2);
    CHECK(c.buffer("weight").distinct_bytes_read == 7168 * 2);
    CHECK(c.buffer("y").stores.bytes == 9 * 7168 * 2);
    CHECK(c.global_loads().excess() <= c.buffer("n_rows").loads.units);
    CHECK(c.global_stores().excess() == 0);
    CHECK(c.bank_conflicts() == 0);
}

TEST_CASE("kernel: rms_norm fits its budget") {
    check_budget("kernels/rms_norm.cu",
                 {"rms_norm_kernel", rms_norm_threads(kRmsNormMaxWidth), 0, 1});
}
#endif

}  // namespace
}  // namespace kimi::test
