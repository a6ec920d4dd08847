#include "constraint/number_range.h"

#include <cstdlib>

#include "constraint/fixtures.h"

using namespace kimi;
using test::accepts;

namespace {

std::string random_decimal(test::Random &random, bool integer) {
    std::string out = test::below(random, 2) == 0 ? "-" : "";
    std::string whole;
    for (std::size_t i = 1 + test::below(random, 3); i > 0; --i)
        whole += static_cast<char>('0' + test::below(random, 10));
    whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
    out += whole;
    if (integer || test::below(random, 3) == 0) return out;
    out += '.';
    for (std::size_t i = 1 + test::below(random, 3); i > 0; --i)
        out += "0123456789900"[test::below(random, 13)];
    return out;
}

bool keeps(double value, Bound bound, double limit) {
    switch (bound) {
        case Bound::at_least:
            return value >= limit;
        case Bound::more_than:
            return value > limit;
        case Bound::at_most:
            return value <= limit;
        case Bound::less_than:
            return value < limit;
    }
    return false;
}

constexpr Bound kBounds[] = {Bound::at_least, Bound::more_than, Bound::at_most, Bound::less_than};

}  // namespace

TEST_CASE("number range: random numbers against random bounds") {
    test::Random random(1);
    for (int round = 0; round < 1500; ++round) {
        const std::string limit = random_decimal(random, test::below(random, 2) == 0);
        const Bound bound = test::pick(random, kBounds);
        const bool integers = test::below(random, 2) == 0;
        const Json json = parse_json(limit, "limit");
        const test::Compiled compiled = test::regex(number_pattern(bound, json, integers));
        const double value_of_limit = std::strtod(limit.c_str(), nullptr);
        for (int i = 0; i < 60; ++i) {
            std::string text = random_decimal(random, integers);
            if (test::below(random, 4) == 0)
                text = integers ? std::string(limit, 0, limit.find('.')) : limit;
            const double value = std::strtod(text.c_str(), nullptr);
            const bool minus_zero = value == 0 && text[0] == '-';
            CAPTURE(limit);
            CAPTURE(text);
            CAPTURE(static_cast<int>(bound));
            const bool got = accepts(*compiled, text);
            if (minus_zero)
                CHECK((!got || keeps(0, bound, value_of_limit)));
            else
                CHECK(got == keeps(value, bound, value_of_limit));
        }
    }
}

TEST_CASE("number range: forms that are never allowed, and long bounds") {
    const auto compiled = [](Bound bound, const char *limit, bool integers) {
        return test::regex(number_pattern(bound, parse_json(limit, "limit"), integers));
    };
    const auto positive = compiled(Bound::more_than, "0", false);
    for (const char *text : {"0", "0.0", "00.1", "01", ".5", "1.", "1e3", "-1", "+1", ""})
        CHECK_FALSE(accepts(*positive, text));
    for (const char *text : {"0.001", "1", "1.50", "100000000000000000000000.1"})
        CHECK(accepts(*positive, text));
    CHECK_FALSE(accepts(*compiled(Bound::at_least, "0", true), "1.0"));
    CHECK_FALSE(accepts(*compiled(Bound::at_least, "0", true), "-0"));
    const auto big = compiled(Bound::at_most, "18446744073709551615", true);
    CHECK(accepts(*big, "18446744073709551615"));
    CHECK_FALSE(accepts(*big, "18446744073709551616"));
    CHECK(accepts(*compiled(Bound::at_most, "1e100", true), "1" + std::string(100, '0')));
    CHECK_FALSE(accepts(*compiled(Bound::at_most, "1e100", true), "2" + std::string(100, '0')));
    CHECK(accepts(*compiled(Bound::less_than, "1e-5", false), "0.000001"));
    CHECK_FALSE(accepts(*compiled(Bound::less_than, "1e-5", false), "0.00001"));
}
