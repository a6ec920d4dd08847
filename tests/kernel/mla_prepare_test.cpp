#include "kernels/mla_prepare.h"

#include <numeric>

#include "base/fp8.h"
#include "kernels/rope_table.h"
#include "model/yarn.h"
#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

// K2.6's, as its config has them.
std::vector<float> inverse_frequencies() {
    YarnConfig yarn;
    yarn.theta = 50'000;
    yarn.factor = 64;
    yarn.original_max_position = 4096;
    return yarn_inv_freq(kMlaRope, yarn);
}

TEST_CASE("kernel: rope_table is accurate up to position 262,143") {
    const std::vector<std::uint32_t> positions = {0,      1,       2,       63,     4095,
                                                  65'535, 131'072, 262'142, 262'143};
    const std::vector<float> inv_freq = inverse_frequencies();
    const auto n = static_cast<std::uint32_t>(positions.size()),
               n_freq = static_cast<std::uint32_t>(inv_freq.size());
    const Buffer<std::uint32_t> position("position", positions), n_rows("n_rows", one(n));
    const Buffer<float> freq("inv_freq", inv_freq);
    Buffer<float> table("table", std::size_t{n} * 2 * n_freq);
    check_clean(run(
        [&] {
            rope_table({position.data(), freq.data(), table.data(), n_rows.data(), n, n_freq, 1.5F},
                       stream());
        },
        {.outputs = {&table}}));
    std::vector<float> expected;
    for (const std::uint32_t p : positions) {
        for (const bool sine : {false, true}) {
            for (const float f : inv_freq) {
                const double angle = double{static_cast<float>(p) * f};
                expected.push_back(
                    static_cast<float>(1.5 * (sine ? std::sin(angle) : std::cos(angle))));
            }
        }
    }
    check_close(table.download(), expected, 3e-7);
}

struct Prepare {
    std::uint32_t n, max_rows, n_heads, nope;
    bool fp8;
    std::vector<std::uint32_t> cell = {};
    std::uint32_t n_pages = 4;
    KvShard shard = {};
    std::uint8_t *fresh = nullptr;
    std::vector<float> kv = random_floats(std::size_t{n} * kMlaDim, 1, 4);
    std::vector<bf16> norm = random_bf16(kMlaLatent, 2, 2);
    std::vector<float> rope = random_floats(std::size_t{n} * kMlaRope, 3);
    std::vector<bf16> q = random_bf16(std::size_t{n} * n_heads * (nope + kMlaRope), 4);
    Buffer<std::uint8_t> pages{
        "pages", n_pages *static_cast<std::size_t>(fp8 ? MlaFp8Page::kBytes : MlaBf16Page::kBytes)};
    Buffer<bf16> absorbed{"q_absorbed", std::size_t{max_rows} * n_heads *kMlaDim};

    Report run() {
        for (std::uint32_t i = static_cast<std::uint32_t>(cell.size()); i < n; ++i)
            cell.push_back((i * 37 + 5) % (n_pages * 64));
        const auto padded = [&](const auto &values, auto &buffer) {
            buffer.upload(values);
            return buffer.data();
        };
        Buffer<float> kv_device("kv", std::size_t{max_rows} * kMlaDim),
            rope_device("rope", std::size_t{max_rows} * kMlaRope);
        Buffer<bf16> q_device("q", std::size_t{max_rows} * n_heads * (nope + kMlaRope));
        Buffer<std::uint32_t> cells("cell", max_rows);
        const Buffer<bf16> w("norm", norm);
        const Buffer<std::uint32_t> n_rows("n_rows", one(n));
        return test::run([&] {
            mla_prepare({padded(kv, kv_device), w.data(), padded(rope, rope_device),
                         padded(q, q_device), absorbed.data(), pages.data(), padded(cell, cells),
                         n_rows.data(), max_rows, n_heads, nope, fp8, 1e-5F, shard, fresh},
                        stream());
        });
    }
    // Of row r: 512 normalised latents, then 64 rotated values.
    std::vector<double> expected_kv(std::size_t r) const {
        double squares = 0;
        for (std::size_t i = 0; i < kMlaLatent; ++i)
            squares += double{kv[r * kMlaDim + i]} * kv[r * kMlaDim + i];
        std::vector<double> v;
        for (std::size_t i = 0; i < kMlaLatent; ++i)
            v.push_back(kv[r * kMlaDim + i] / std::sqrt(squares / kMlaLatent + 1e-5F) *
                        to_float(norm[i]));
        for (std::size_t i = 0; i < kMlaRope; ++i)
            v.push_back(
                rotated(r, i, [&](std::size_t at) { return kv[r * kMlaDim + kMlaLatent + at]; }));
        return v;
    }
    template <typename F>
    double rotated(std::size_t r, std::size_t i, const F &value) const {
        const double cos = rope[r * kMlaRope + i / 2], sin = rope[r * kMlaRope + 32 + i / 2];
        const double a = value(i / 2 * 2), b = value(i / 2 * 2 + 1);
        return i % 2 == 0 ? a * cos - b * sin : b * cos + a * sin;
    }
    void check() const {
        const auto bytes = pages.download();
        const auto bf16_at = [&](std::size_t at) {
            return to_float(static_cast<bf16>(bytes[at] | bytes[at + 1] << 8));
        };
        for (std::size_t r = 0; r < n; ++r) {
            const std::vector<double> expected = expected_kv(r);
            const std::size_t page = cell[r] / 64, offset = cell[r] % 64;
            for (std::size_t i = 0; i < kMlaDim; ++i) {
                if (!fp8 || i >= kMlaLatent) {
                    const std::size_t at = fp8 ? page * MlaFp8Page::kBytes + MlaFp8Page::kRope +
                                                     offset * 128 + (i - kMlaLatent) * 2
                                               : page * MlaBf16Page::kBytes + offset * 1152 + i * 2;
                    REQUIRE(std::fabs(bf16_at(at) - expected[i]) <=
                            0.0041 * std::fabs(expected[i]) + 1e-6);
                    continue;
                }
                double largest = 0;
                for (std::size_t j = i / 128 * 128; j < i / 128 * 128 + 128; ++j)
                    largest = std::max(largest, std::fabs(expected[j]));
                float scale;
                std::memcpy(&scale,
                            bytes.data() + page * MlaFp8Page::kBytes + MlaFp8Page::kScales +
                                offset * 16 + i / 128 * 4,
                            4);
                REQUIRE(scale == doctest::Approx(largest / 448).epsilon(1e-5));
                const double got =
                    double{from_e4m3(bytes[page * MlaFp8Page::kBytes + offset * 512 + i])} * scale;
                REQUIRE(std::fabs(got - expected[i]) <=
                        std::fabs(expected[i]) / 15.9 + scale * 0x1p-10);
            }
        }
        const auto got = widened(absorbed.download());
        for (std::size_t i = 0; i < got.size(); ++i) {
            const std::size_t query = i / kMlaDim, column = i % kMlaDim;
            if (query >= std::size_t{n} * n_heads || column < kMlaLatent) {
                REQUIRE(std::isnan(got[i]));
                continue;
            }
            const double expected = rotated(
                query / n_heads, column - kMlaLatent,
                [&](std::size_t at) { return to_float(q[query * (nope + kMlaRope) + nope + at]); });
            REQUIRE(std::fabs(got[i] - expected) <= 0.0041 * std::fabs(expected) + 1e-6);
        }
    }
};

TEST_CASE("kernel: mla_prepare writes pages and queries, of K2.6 and of nano-k2") {
    for (const bool fp8 : {false, true}) {
        for (const std::uint32_t n : {0U, 1U, 3U, 9U}) {
            Prepare k26{n, n + 2, 8, 128, fp8};
            check_clean(k26.run());
            k26.check();
            Prepare nano{n, std::max(1U, n), 3, 32, fp8};
            check_clean(nano.run());
            nano.check();
        }
        Prepare all_heads{2, 2, 64, 128, fp8};
        check_clean(all_heads.run());
        all_heads.check();
    }
}

TEST_CASE("kernel: mla_prepare keeps zeros and does not lose a NaN in fp8") {
    Prepare t{2, 2, 8, 128, true, {3, 70}};
    std::fill_n(t.kv.begin(), kMlaDim, 0.0F);
    t.kv[kMlaDim + 200] = std::nanf("");
    check_clean(t.run());
    const auto bytes = t.pages.download();
    for (std::size_t i = 0; i < 512; ++i) {
        CHECK((bytes[3 * 512 + i] & 0x7F) == 0);
        CHECK(std::isnan(from_e4m3(bytes[MlaFp8Page::kBytes + 6 * 512 + i])));
    }
}

// What whole pages would have at a token, in every plane.
std::vector<std::uint8_t> token_of(const std::vector<std::uint8_t> &pages, bool fp8,
                                   std::uint32_t tokens, std::uint32_t page, std::uint32_t offset) {
    std::vector<std::uint8_t> out;
    const std::vector<std::size_t> planes =
        fp8 ? std::vector<std::size_t>{512, 16, 128} : std::vector<std::size_t>{1152};
    std::size_t at = page * tokens * std::accumulate(planes.begin(), planes.end(), std::size_t{0});
    for (const std::size_t bytes : planes) {
        const auto from = pages.begin() + static_cast<std::ptrdiff_t>(at + offset * bytes);
        out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(bytes));
        at += tokens * bytes;
    }
    return out;
}

TEST_CASE("kernel: mla_prepare writes what a shard holds, and all rows to the pass's page") {
    const std::vector<std::uint32_t> cell = {3, 64 + 7, 64 + 8, 2 * 64 + 63};
    for (const bool fp8 : {false, true}) {
        Prepare whole{4, 6, 8, 128, fp8, cell};
        check_clean(whole.run());
        whole.check();
        const auto expected = whole.pages.download();
        for (const std::uint32_t shard : {0U, 1U, 2U, 7U}) {
            Prepare part{4, 6, 8, 128, fp8, cell};
            part.shard = {3, shard};
            const Buffer<std::uint8_t> fresh("fresh", part.pages.size() / part.n_pages);
            part.fresh = fresh.data();
            check_clean(part.run());
            const auto pages = part.pages.download(), rows = fresh.download();
            for (std::uint32_t r = 0; r < 4; ++r) {
                const auto token = token_of(expected, fp8, 64, cell[r] / 64, cell[r] % 64);
                CHECK(token_of(rows, fp8, 64, 0, r) == token);
                if (cell[r] % 64 / 8 == shard)
                    CHECK(token_of(pages, fp8, 8, cell[r] / 64, cell[r] % 8) == token);
            }
            const auto n_held = std::count_if(cell.begin(), cell.end(),
                                              [&](std::uint32_t c) { return c % 64 / 8 == shard; });
            const auto n_written = std::count_if(pages.begin(), pages.end(),
                                                 [](std::uint8_t byte) { return byte != 0xff; });
            CHECK(n_written <= n_held * (fp8 ? 656 : 1152));
        }
    }
}

#ifdef KIMI_SIMT
TEST_CASE("kernel: mla_prepare moves each byte once") {
    for (const bool fp8 : {false, true}) {
        Prepare t{9, 9, 8, 128, fp8};
        for (std::uint32_t i = 0; i < 9; ++i) t.cell.push_back(60 + i);
        const Report r = t.run();
        check_clean(r);
        const Counters &c = r.counters("mla_prepare");
        const std::uint64_t stored = fp8 ? MlaFp8Page::kTokenBytes : MlaBf16Page::kTokenBytes;
        print_cost(fp8 ? "mla_prepare, 9 rows, fp8" : "mla_prepare, 9 rows, bf16", c,
                   9 * (576 * 4 + 256 + 8 * 256 + stored) + 1024);
        CHECK(c.buffer("pages").stores.bytes == 9 * stored);
        CHECK(c.buffer("pages").distinct_bytes_written == 9 * stored);
        CHECK(c.buffer("kv").loads.bytes == 9 * 576 * 4);
        CHECK(c.bank_conflicts() == 0);
    }
}
#endif

TEST_CASE("kernel: rope_table and mla_prepare fit their budgets") {
    check_budget("kernels/rope_table.cu", {"rope_table_kernel", 128, 0, 8});
    check_budget("kernels/mla_prepare.cu", {"mla_prepare_kernel", 128, 0, 8});
}

}  // namespace
}  // namespace kimi::test
