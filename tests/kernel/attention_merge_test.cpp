#include "kernels/attention_merge.h"

#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

struct Merge {
    std::vector<std::uint32_t> n_parts;  // of each row
    std::size_t heads, dim, capacity;
    std::size_t parts = *std::max_element(n_parts.begin(), n_parts.end());
    std::vector<float> part_out = random_floats(parts * capacity * heads * dim, 1);
    std::vector<float> part_lse = random_floats(parts * capacity * heads, 2, 20);
    Buffer<float> out{"out", n_parts.size() * heads *dim}, lse{"lse", n_parts.size() * heads};
    Buffer<bf16> narrow{"narrow", n_parts.size() * heads *dim};

    std::size_t at(std::size_t part, std::size_t row, std::size_t head) const {
        return (part * capacity + row) * heads + head;
    }
    // Only what a row has is written, and of empty parts only the logarithm.
    Report run() {
        Buffer<float> from("part_out", part_out.size()), from_lse("part_lse", part_lse.size());
        for (std::size_t row = 0; row < n_parts.size(); ++row) {
            for (std::size_t part = 0; part < n_parts[row]; ++part) {
                for (std::size_t h = 0; h < heads; ++h) {
                    const std::size_t i = at(part, row, h);
                    from_lse.upload({part_lse.data() + i, 1}, i);
                    if (part_lse[i] != -INFINITY)
                        from.upload({part_out.data() + i * dim, dim}, i * dim);
                }
            }
        }
        const Buffer<std::uint32_t> n("n_parts", n_parts);
        const Buffer<std::uint32_t> n_rows("n_rows",
                                           one(static_cast<std::uint32_t>(n_parts.size())));
        return test::run(
            [&] {
                attention_merge(
                    {from.data(), from_lse.data(), n.data(), n_rows.data(), static_cast<int>(heads),
                     static_cast<int>(dim), static_cast<int>(capacity), static_cast<int>(capacity),
                     narrow.data(), out.data(), lse.data()},
                    stream());
            },
            {.outputs = {&out, &lse, &narrow}});
    }
    void check() {
        check_clean(run());
        std::vector<float> expected, expected_lse;
        for (std::size_t row = 0; row < n_parts.size(); ++row) {
            for (std::size_t h = 0; h < heads; ++h) {
                double total = 0;
                std::vector<double> sum(dim);
                for (std::size_t part = 0; part < n_parts[row]; ++part) {
                    const std::size_t i = at(part, row, h);
                    if (part_lse[i] == -INFINITY) continue;
                    const double weight = std::exp2(double{part_lse[i]});
                    total += weight;
                    for (std::size_t d = 0; d < dim; ++d) sum[d] += weight * part_out[i * dim + d];
                }
                for (const double x : sum)
                    expected.push_back(total > 0 ? static_cast<float>(x / total) : 0.0F);
                expected_lse.push_back(static_cast<float>(std::log2(total)));
            }
        }
        check_close(out.download(), expected, 1e-5);
        check_close(widened(narrow.download()), expected, kBf16Error);
        const auto got = lse.download();
        for (std::size_t i = 0; i < got.size(); ++i) {
            if (std::isinf(expected_lse[i])) {
                CHECK(got[i] == -INFINITY);
            } else {
                CHECK(got[i] == doctest::Approx(expected_lse[i]).epsilon(1e-5));
            }
        }
    }
};

TEST_CASE("kernel: attention_merge weighs parts by their sums, whatever their number") {
    for (const std::size_t dim : {64U, 128U, 512U}) {
        Merge{{1, 3, 4, 5, 33}, 2, dim, 7}.check();
    }
    Merge{{189}, 1, 128, 1}.check();
}

TEST_CASE("kernel: attention_merge skips empty parts and makes zeros of nothing") {
    Merge t{{3, 3, 2}, 2, 128, 4};
    for (std::size_t part = 0; part < 3; ++part) t.part_lse[t.at(part, 1, 0)] = -INFINITY;
    t.part_lse[t.at(0, 0, 1)] = -INFINITY;
    t.part_lse[t.at(1, 2, 0)] = -INFINITY;
    t.check();
}

#ifdef KIMI_SIMT
TEST_CASE("kernel: attention_merge reads each part once") {
    Merge t{std::vector<std::uint32_t>(9, 17), 8, 512, 9};
    const Report r = t.run();
    const Counters &c = r.counters("attention_merge");
    print_cost("attention_merge, 17 parts of 72 queries", c, 72 * (17 * 513 * 4 + 512 * 6 + 4));
    CHECK(c.buffer("part_out").loads.bytes == 72 * 17 * 512 * 4);
    CHECK(c.buffer("part_out").loads.excess() == 0);
    CHECK(c.bank_conflicts() == 0);
}
#endif

TEST_CASE("kernel: attention_merge fits its budget") {
    check_budget("kernels/attention_merge.cu", {"attention_merge_kernel", 128, 0, 8});
}

}  // namespace
}  // namespace kimi::test
