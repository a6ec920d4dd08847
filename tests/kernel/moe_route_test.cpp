#include "kernels/moe_route.h"

#include <map>
#include <set>

#include "tests/kernel/moe_case.h"
#include "tests/kernel/ptxas_budget.h"

namespace kimi::test {
namespace {

// Pairs of a slice are sorted by expert, then row; tiles and groups cover them.
void check_plan(const RouteCase &t, std::uint32_t slice) {
    const std::uint32_t first_row = slice * 64, end_row = std::min(first_row + 64, t.n),
                        first_pair = first_row * t.top_k;
    std::map<std::uint32_t, std::map<std::uint32_t, float>> rows_of;
    const auto ids = t.ids.download();
    const auto weights = t.weights.download();
    for (std::uint32_t i = first_pair; i < end_row * t.top_k; ++i) {
        const std::uint32_t place = t.held.empty() ? ids[i] : t.held[ids[i]];
        if (place != kMoeElsewhere) rows_of[place][i / t.top_k - first_row] = weights[i];
    }
    const auto of_slice = [&](auto all) {
        all.erase(all.begin(), all.begin() + first_pair);
        return all;
    };
    const auto tiles = of_slice(t.tiles.download());
    const auto groups = of_slice(t.groups.download());
    const auto pair_row = of_slice(t.pair_row.download());
    const auto pair_weight = of_slice(t.pair_weight.download());
    std::size_t group = 0, tile = 0;
    std::uint32_t pair = 0;
    for (const auto &[expert, rows] : rows_of) {
        CHECK(groups[group].expert == expert);
        CHECK(groups[group].first == pair);
        std::uint64_t mask = 0;
        std::uint32_t left = static_cast<std::uint32_t>(rows.size());
        for (std::uint32_t first = pair; left > 0; ++tile) {
            CHECK(tiles[tile].expert == expert);
            CHECK(tiles[tile].first == first);
            CHECK(tiles[tile].n == std::min(left, 8U));
            first += tiles[tile].n;
            left -= std::min(left, 8U);
        }
        for (const auto &[row, weight] : rows) {
            mask |= std::uint64_t{1} << row;
            CHECK(pair_row[pair] == row);
            CHECK((pair_weight[pair] == weight || std::isnan(weight)));
            ++pair;
        }
        CHECK(groups[group].rows == mask);
        ++group;
    }
    CHECK(t.n_groups.download()[slice] == group);
    CHECK(t.n_tiles.download()[slice] == tile);
}
void check_plan(const RouteCase &t) {
    for (std::uint32_t slice = 0; slice < moe_slices(t.max_rows); ++slice) check_plan(t, slice);
}

void check_choice(const RouteCase &t) {
    const auto ids = t.ids.download();
    const auto weights = t.weights.download();
    for (std::uint32_t row = 0; row < t.n; ++row) {
        const auto expected = t.expected(row);
        for (std::uint32_t k = 0; k < t.top_k; ++k) {
            REQUIRE(ids[row * t.top_k + k] == expected.ids[k]);
            CHECK(weights[row * t.top_k + k] == doctest::Approx(expected.weights[k]).epsilon(1e-5));
        }
    }
}

TEST_CASE("kernel: moe_route plans the experts that a rank has, by their places there") {
    for (const std::uint32_t n : {0U, 1U, 9U, 64U, 150U}) {
        RouteCase t{n, std::max(n, 3U), 33, 4};
        t.held.assign(33, kMoeElsewhere);
        for (std::uint32_t i = 0; i < 10; ++i) t.held[3 * i + 2] = i;
        check_clean(t.run());
        check_choice(t);
        check_plan(t);
    }
}

TEST_CASE("kernel: moe_route chooses the best experts and groups their rows") {
    struct {
        std::uint32_t experts, top_k;
    } const shapes[] = {{384, 8}, {32, 4}, {8, 8}, {33, 1}, {512, 8}};
    for (const auto &shape : shapes) {
        for (const std::uint32_t n : {0U, 1U, 9U, 64U}) {
            RouteCase t{n, std::max(n, 3U), shape.experts, shape.top_k};
            check_clean(t.run());
            check_choice(t);
            check_plan(t);
        }
    }
}

TEST_CASE("kernel: moe_route of many rows that agree makes several tiles of an expert") {
    RouteCase t{21, 24, 384, 8};
    for (std::uint32_t row = 1; row < t.n; ++row)
        std::copy_n(t.logits.begin(), 384, t.logits.begin() + row * 384);
    check_clean(t.run());
    check_plan(t);
    CHECK(t.n_groups.download()[0] == 8);
    CHECK(t.n_tiles.download()[0] == 24);
}

TEST_CASE(
    "kernel: moe_route takes the lower index on ties, and weights as they are without "
    "normalising") {
    RouteCase t{2, 2, 40, 4};
    t.normalize = false;
    for (float &x : t.logits) x = 0.5F;
    for (float &x : t.bias) x = 0;
    check_clean(t.run());
    check_choice(t);
}

TEST_CASE("kernel: moe_route chooses distinct experts whatever the logits are") {
    for (const float poison : {std::nanf(""), INFINITY, -INFINITY}) {
        RouteCase t{3, 3, 384, 8};
        std::fill_n(t.logits.begin(), 384, poison);
        for (std::size_t i = 390; i < 765; ++i) t.logits[i] = poison;  // three are left
        check_clean(t.run());
        check_plan(t);
        const auto ids = t.ids.download();
        for (std::size_t row = 0; row < 3; ++row) {
            CHECK(std::set<std::uint32_t>(ids.begin() + static_cast<std::ptrdiff_t>(row * 8),
                                          ids.begin() + static_cast<std::ptrdiff_t>(row * 8 + 8))
                      .size() == 8);
            for (std::size_t k = 0; k < 8; ++k) CHECK(ids[row * 8 + k] < 384);
        }
        if (std::isnan(poison)) {
            for (std::uint32_t k = 0; k < 8; ++k) CHECK(ids[k] == k);
        }
    }
}

TEST_CASE("kernel: moe_route fits its budget") {
    check_budget("kernels/moe_route.cu", {"moe_route_kernel", kMoeMaxExperts, 0, 1});
}

}  // namespace
}  // namespace kimi::test
