#include "kernels/context_rows.h"

#include "kernels/time_stamp.h"
#include "tests/kernel/ptxas_budget.h"
#include "tests/kernel/support.h"

namespace kimi::test {
namespace {

TEST_CASE("kernel: context_rows lists the committed rows of all sequences") {
    constexpr std::uint32_t kRows = 64;
    for (const std::uint32_t ring_slots : {0U, 96U}) {
        for (const std::uint32_t n : {0U, 1U, 3U, 12U}) {
            // Sequence s has s + 5 rows, of which every other one is on its path.
            std::vector<std::uint32_t> first, committed, path(kRows, 99), root, ring, cell;
            std::uint32_t row = 0;
            for (std::uint32_t s = 0; s < n && row + s < kRows - 5; ++s) {
                first.push_back(row);
                committed.push_back((s + 5) / 2);
                root.push_back(90 + 1000 * s);
                ring.push_back(7 - s % 4);
                for (std::uint32_t i = 0; i < committed[s]; ++i) path[row + i] = 2 * i;
                row += s + 5;
            }
            const auto n_sequences = static_cast<std::uint32_t>(first.size());
            for (std::uint32_t r = 0; r < kRows; ++r) cell.push_back(11 * r + 3);
            std::vector<std::uint32_t> picked, position, page_cell, ring_cell;
            for (std::uint32_t s = 0; s < n_sequences; ++s) {
                for (std::uint32_t i = 0; i < committed[s]; ++i) {
                    picked.push_back(first[s] + 2 * i);
                    position.push_back(root[s] + i);
                    page_cell.push_back(cell[first[s] + i]);
                    if (ring_slots > 0)
                        ring_cell.push_back(ring[s] * ring_slots + (root[s] + i) % ring_slots);
                }
            }
            for (auto *values : {&first, &committed, &root, &ring}) values->resize(kRows);
            const Buffer<std::uint32_t> d_first("first_row", first), d_committed("n", committed),
                d_path("path", path), d_root("root_position", root), d_cell("cell", cell),
                d_ring("ring", ring);
            const Buffer<std::uint32_t> n_picked("n_picked", 1),
                d_n("n_sequences", one(n_sequences)), n_rows("n_rows", 1),
                out_picked("picked", kRows), out_position("position", kRows),
                out_page("page_cell", kRows), out_ring("ring_cell", kRows);
            check_clean(run([&] {
                context_rows({d_n.data(), 64, d_first.data(), d_committed.data(), d_path.data(),
                              d_root.data(), d_cell.data(), d_ring.data(), ring_slots,
                              n_rows.data(), n_picked.data(), out_picked.data(),
                              out_position.data(), out_page.data(), out_ring.data()},
                             stream());
            }));
            REQUIRE(n_rows.download()[0] == picked.size());
            CHECK(n_picked.download()[0] == picked.size());
            const auto check = [&](const Buffer<std::uint32_t> &got,
                                   const std::vector<std::uint32_t> &expected) {
                auto values = got.download();
                values.resize(expected.size());
                CHECK(values == expected);
            };
            check(out_picked, picked);
            check(out_position, position);
            check(out_page, page_cell);
            check(out_ring, ring_cell);
        }
    }
}

TEST_CASE("kernel: time stamps ascend along a stream") {
    const Buffer<std::uint64_t> at("at", 2);
    check_clean(run([&] {
        time_stamp(at.data(), stream());
        time_stamp(at.data() + 1, stream());
    }));
    const auto got = at.download();
    CHECK(got[0] > 0);
    CHECK(got[1] >= got[0]);
}

TEST_CASE("kernel: context_rows and time_stamp fit their budgets") {
    check_budget("kernels/context_rows.cu", {"context_rows_kernel", 256, 0, 4});
    check_budget("kernels/time_stamp.cu", {"time_stamp_kernel", 1, 0, 16});
}

}  // namespace
}  // namespace kimi::test
