#include "placement/routing.h"

#include "fixtures.h"

using namespace kimi;
using namespace kimi::test;

namespace {

Routing uniform(std::uint32_t groups) {
    const TargetDims dims = k26().target;
    return Routing(dims, ExpertMap::in_order(dims, groups), 64);
}

// The largest number of picks of one token in one group, expected: of C(384, 8) choices those with
// at most m experts in every group of `size` are the coefficient of x^8 in (sum_{i <= m} C(size, i)
// x^i)^groups.
double exact_busiest(std::uint32_t groups, std::uint32_t size) {
    constexpr std::size_t kPicks = 8;
    std::vector<double> choose(kPicks + 1, 1);
    for (std::size_t i = 1; i <= kPicks; ++i)
        choose[i] = choose[i - 1] * double(size - i + 1) / double(i);
    const auto choices = [&](std::size_t most) {
        std::vector<double> product(kPicks + 1);
        product[0] = 1;
        for (std::uint32_t g = 0; g < groups; ++g) {
            std::vector<double> next(kPicks + 1);
            for (std::size_t a = 0; a <= kPicks; ++a)
                for (std::size_t b = 0; b <= most && a + b <= kPicks; ++b)
                    next[a + b] += product[a] * choose[b];
            product = next;
        }
        return product[kPicks];
    };
    double expected = 0;
    for (std::size_t m = 0; m < kPicks; ++m) expected += 1 - choices(m) / choices(kPicks);
    return expected;
}

}  // namespace

TEST_CASE("routing: 9 tokens touch 66.3 of 384 experts") {
    // The published table for uniform routing.
    const double expected[][2] = {{1, 8},    {2, 15.8},   {4, 31.0},   {8, 59.5},
                                  {9, 66.3}, {16, 109.8}, {32, 188.2}, {64, 284.2}};
    for (const auto &[n, distinct] : expected)
        check_near(uniform(1).distinct_experts(n), distinct, 0.005);
}

TEST_CASE("routing: the busiest of eight ranks with whole experts, slices balance") {
    // sm120_roofline.py's Monte Carlo over 4000 passes.
    const double expected[][2] = {{1, 2.58},  {2, 2.08},  {4, 1.73}, {9, 1.46},
                                  {16, 1.33}, {32, 1.21}, {64, 1.12}};
    const Routing eight = uniform(8);
    for (const auto &row : expected) {
        const double n = row[0];
        const double ratio = row[1];
        CAPTURE(n);
        check_near(eight.load(static_cast<std::uint32_t>(n)).distinct_ratio, ratio, 0.015);
    }
    // Its (token, expert) pairs: 2.6 of 1, 13.4 of 9, 40.2 of 32, 75.5 of 64.
    check_near(eight.load(9).pairs_ratio, 13.4 / 9);
    check_near(eight.load(64).pairs_ratio, 75.5 / 64);
    // One token exactly, without simulating.
    check_near(exact_busiest(8, 48), 2.58, 0.002);
    check_near(eight.load(1).distinct_ratio, exact_busiest(8, 48), 0.01);
    check_near(uniform(2).load(1).distinct_ratio, exact_busiest(2, 192) / 4, 0.01);
    // Two groups of four slices: 1.27 at 1 token, 1.09 at 9.
    check_near(uniform(2).load(1).distinct_ratio, 1.27);
    check_near(uniform(2).load(9).distinct_ratio, 1.09);
    for (const std::uint32_t n : {1U, 9U, 64U}) CHECK(uniform(1).load(n).distinct_ratio == 1.0);
}

TEST_CASE("routing: recorded counts") {
    const TargetDims dims = k26().target;
    const ExpertMap map = ExpertMap::in_order(dims, 8);
    const std::size_t n_layers = dims.n_moe_layers();
    // Equal counts are uniform routing.
    const ExpertCounts equal(n_layers, std::vector<double>(dims.n_experts, 7));
    const Routing routing(dims, map, 9, equal);
    check_near(routing.distinct_experts(9), 66.28, 0.001);
    check_near(routing.load(9).distinct_ratio, uniform(8).load(9).distinct_ratio, 0.01);

    // Weights of rank^-0.5 in random order: the script finds 63.4 distinct at 9 tokens and ratios
    // of 2.57 and 1.48. The order 161 e mod 384 is one without a pattern.
    ExpertCounts skewed(n_layers, std::vector<double>(dims.n_experts));
    for (std::uint32_t e = 0; e < dims.n_experts; ++e)
        for (auto &layer : skewed) layer[161 * e % dims.n_experts] = 1 / std::sqrt(1.0 + e);
    const Routing skew(dims, map, 9, skewed);
    check_near(skew.distinct_experts(9), 63.4);
    check_near(skew.load(1).distinct_ratio, 2.57);
    check_near(skew.load(9).distinct_ratio, 1.48, 0.03);

    // Only the experts of one group are used: it reads everything.
    ExpertCounts one(n_layers, std::vector<double>(dims.n_experts));
    for (auto &layer : one) std::fill_n(layer.begin(), 48, 1.0);
    const Routing hot(dims, map, 4, one);
    CHECK(hot.load(4).distinct_ratio == doctest::Approx(8));
    CHECK(hot.distinct_experts(1) == doctest::Approx(8));
    // Balancing spreads them again.
    const Routing cooled(dims, ExpertMap::balanced(dims, one, 8, 0), 4, one);
    CHECK(cooled.load(4).distinct_ratio < 2);
}
