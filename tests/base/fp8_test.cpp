#include "base/fp8.h"

#include <limits>

#include "check.h"

using namespace kimi;

TEST_CASE(
    "fp8: every code is its own rounding, and between codes the nearer one wins, even on ties") {
    std::vector<std::uint8_t> codes;
    for (int code = 0; code < 0x7f; ++code) codes.push_back(static_cast<std::uint8_t>(code));
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const float value = from_e4m3(codes[i]);
        CHECK(to_e4m3(value) == codes[i]);
        CHECK(to_e4m3(-value) == (codes[i] | 0x80));
        if (i + 1 == codes.size()) break;
        const float next = from_e4m3(codes[i + 1]);
        REQUIRE(next > value);
        const float middle = (value + next) / 2;
        CHECK(to_e4m3(middle) == (codes[i] % 2 == 0 ? codes[i] : codes[i + 1]));
        CHECK(to_e4m3(std::nextafter(middle, 0.0f)) == codes[i]);
        CHECK(to_e4m3(std::nextafter(middle, 1000.0f)) == codes[i + 1]);
    }
}

// Values of the OCP 8-bit floating point specification.
TEST_CASE("fp8: the values of the specification") {
    CHECK(from_e4m3(0x7e) == 448.0f);
    CHECK(from_e4m3(0x08) == 0x1p-6f);
    CHECK(from_e4m3(0x01) == 0x1p-9f);
    CHECK(from_e4m3(0x38) == 1.0f);
    CHECK(std::isnan(from_e4m3(0x7f)));
    CHECK(to_e4m3(1e9f) == 0x7e);
    CHECK(to_e4m3(-500.0f) == 0xfe);
    CHECK(to_e4m3(std::numeric_limits<float>::quiet_NaN()) == 0x7f);
}
