// Conversions and single instructions against independent definitions.
#include <cmath>
#include <random>
#include <vector>

#include "tests/simt/testing.h"

namespace kimi::simt::host {
namespace {

// A floating-point format with these many bits, as its definition says.
double value_of(std::uint32_t pattern, int exponent_bits, int mantissa_bits, bool has_infinity) {
    const std::uint32_t exponent = pattern >> mantissa_bits & ((1U << exponent_bits) - 1);
    const std::uint32_t mantissa = pattern & ((1U << mantissa_bits) - 1);
    const bool negative = (pattern >> (exponent_bits + mantissa_bits) & 1U) != 0;
    const std::uint32_t top = (1U << exponent_bits) - 1;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    double v;
    if (has_infinity && exponent == top) {
        v = mantissa == 0 ? INFINITY : NAN;
    } else if (!has_infinity && exponent == top && mantissa == (1U << mantissa_bits) - 1) {
        v = NAN;
    } else if (exponent == 0) {
        v = std::ldexp(mantissa, 1 - bias - mantissa_bits);
    } else {
        v = std::ldexp(mantissa + (1U << mantissa_bits),
                       static_cast<int>(exponent) - bias - mantissa_bits);
    }
    return negative ? -v : v;
}

struct Format {
    int exponent_bits, mantissa_bits;
    bool has_infinity;
    std::uint32_t (*pack)(float);
    float (*unpack)(std::uint32_t);
    int n_bits() const { return 1 + exponent_bits + mantissa_bits; }
};
const Format kFormats[] = {
    {8, 7, true, [](float x) { return pack_bf16(x, 0) & 0xffffU; },
     [](std::uint32_t v) { return unpack_bf16(v).x; }},
    {5, 10, true, [](float x) { return pack_f16(x, 0) & 0xffffU; },
     [](std::uint32_t v) { return unpack_f16(v).x; }},
    {4, 3, false, [](float x) { return std::uint32_t{pack_e4m3(x, 0)} & 0xffU; },
     [](std::uint32_t v) { return unpack_e4m3(static_cast<std::uint16_t>(v)).x; }},
};

TEST_CASE("simt: every bf16, f16 and e4m3 has its value and survives the way back") {
    for (const Format &f : kFormats) {
        for (std::uint32_t p = 0; p < 1U << f.n_bits(); ++p) {
            const double expected = value_of(p, f.exponent_bits, f.mantissa_bits, f.has_infinity);
            const float got = f.unpack(p);
            if (std::isnan(expected)) {
                REQUIRE(std::isnan(got));
                REQUIRE(f.pack(got) == (1U << (f.n_bits() - 1)) - 1);  // as the GPU writes it
                continue;
            }
            REQUIRE(double{got} == expected);
            REQUIRE(std::signbit(got) == std::signbit(expected));
            REQUIRE(f.pack(got) == p + (std::isinf(got) && !f.has_infinity));
        }
    }
}

TEST_CASE("simt: rounding is to the nearest value, ties to the even one") {
    std::mt19937 random(2);
    for (const Format &f : kFormats) {
        // Neighbours in order, up to the largest finite one.
        const std::uint32_t n =
            f.has_infinity ? ((1U << f.exponent_bits) - 1) << f.mantissa_bits : 0x7fU;
        for (std::uint32_t p = 0; p + 1 < n; ++p) {
            const float low = f.unpack(p), high = f.unpack(p + 1);
            const double half = (double{low} + high) / 2;
            const auto middle = static_cast<float>(half);
            if (double{middle} != half) continue;
            REQUIRE(f.pack(middle) == (p % 2 == 0 ? p : p + 1));
            REQUIRE(f.pack(std::nextafterf(middle, low)) == p);
            REQUIRE(f.pack(std::nextafterf(middle, high)) == p + 1);
            REQUIRE(f.pack(-middle) == (f.pack(middle) | 1U << (f.n_bits() - 1)));
        }
    }
    CHECK(pack_e4m3(449, -1e30F) == 0xfe7e);  // saturates
    CHECK(pack_e4m3(INFINITY, -INFINITY) == 0xfe7e);
    CHECK(pack_f16(65520, -65519) == 0xfbff7c00U);
    CHECK(pack_bf16(3.4e38F, -3.3961775e38F) == 0xff807f80U);
}

TEST_CASE("simt: pairs keep their halves apart") {
    CHECK(pack_bf16(1, 2) == 0x40003f80U);
    CHECK(unpack_bf16(0x40003f80U).y == 2);
    CHECK(pack_f16(1, 2) == 0x40003c00U);
    CHECK(pack_e4m3(1, 2) == 0x4038);
    CHECK(e4m3_to_f16(0x4038) == 0x40003c00U);
    CHECK(float_to_bf16(1) == 0x3f80);
}

TEST_CASE("simt: fma_bf16 rounds once") {
    std::mt19937 random(3);
    std::uniform_int_distribution<std::uint32_t> pattern(0, 0xffff);
    int compared = 0;
    for (int i = 0; i < 200000; ++i) {
        const auto a = static_cast<bf16>(pattern(random)), b = static_cast<bf16>(pattern(random));
        const auto c = static_cast<bf16>(pattern(random));
        // long double has 64 bits: exact unless the addends lie far apart.
        const long double product = static_cast<long double>(bf16_to_float(a)) * bf16_to_float(b);
        const long double sum = product + bf16_to_float(c);
        if (!std::isfinite(static_cast<float>(sum)) || sum - product != bf16_to_float(c)) continue;
        if (std::fabs(static_cast<double>(sum)) < 1e-37) continue;
        int exponent;
        const long double scaled = std::ldexp(std::frexp(sum, &exponent), 8);
        const long double rounded = std::ldexp(std::rint(scaled), exponent - 8);
        const auto got = bf16_to_float(static_cast<bf16>(fma_bf16(a, b, c)));
        if (std::isinf(got)) continue;
        REQUIRE(static_cast<long double>(got) == rounded);
        ++compared;
    }
    CHECK(compared > 10000);
    CHECK(fma_bf16(0x3f81, 0x3f80, 0x3b80) == 0x3f82);  // 1 + 2^-7 + 2^-8: tie, to even
    CHECK(fma_bf16(0x3f80, 0x3f80, 0x3b80) == 0x3f80);  // 1 + 2^-8: tie, to even
    CHECK(fma_bf16(0x3f80, 0x3b80, 0x3f80) == 0x3f80);
    CHECK(fma_bf16(0x40003f80U, 0x40003f80U, 0) == 0x40803f80U);  // both halves
    CHECK((fma_bf16(0x7f80, 0, 0) & 0xffffU) == 0x7fff);
}

TEST_CASE("simt: fma_bf16 does not round twice") {
    // 1.0625 * 1.0625 = 144.5 / 128 lies between two bf16; an addend far below the 53 bits of a
    // double decides.
    constexpr bf16 x = 0x3f88, smallest = 0x0080;
    CHECK(fma_bf16(x, x, 0) == 0x3f90);
    CHECK(fma_bf16(x, x, smallest) == 0x3f91);
    CHECK(fma_bf16(x, x, 0x8000 | smallest) == 0x3f90);
    CHECK((fma_bf16(x | 0x8000, x, 0x8000 | smallest) & 0xffffU) == 0xbf91);
}

TEST_CASE("simt: approximations are within an ulp and flush subnormal numbers") {
    for (float x = -126; x < 128; x += 0.0137F) {
        CHECK(exp2_approx(x) == doctest::Approx(std::exp2(double{x})).epsilon(1e-7));
    }
    CHECK(exp2_approx(0) == 1);
    CHECK(exp2_approx(-INFINITY) == 0);
    CHECK(exp2_approx(-126.5F) == 0);
    CHECK(exp2_approx(128) == INFINITY);
    CHECK(std::isnan(exp2_approx(NAN)));
    for (int i = -126; i < 128; ++i)
        CHECK(exp2_approx(static_cast<float>(i)) == std::ldexp(1.0F, i));
    CHECK(log2_approx(8) == 3);
    CHECK(log2_approx(0) == -INFINITY);
    CHECK(log2_approx(1e-40F) == -INFINITY);
    CHECK(std::isnan(log2_approx(-1)));
    CHECK(rcp_approx(4) == 0.25F);
    CHECK(rcp_approx(1e-40F) == INFINITY);
    CHECK(rcp_approx(3e38F) == 0);
    CHECK(rsqrt_approx(4) == 0.5F);
    CHECK(rsqrt_approx(0) == INFINITY);
}

TEST_CASE("simt: bit operations follow PTX") {
    constexpr std::uint32_t a = 0x12345678, b = 0x9abcdef0, c = 0x0f0f3355;
    CHECK(lop3<(0xf0 & 0xcc) | 0xaa>(a, b, c) == ((a & b) | c));
    CHECK(lop3<0xf0 ^ 0xcc ^ 0xaa>(a, b, c) == (a ^ b ^ c));
    CHECK(lop3<0xca>(a, b, c) == ((a & b) | (~a & c)));
    CHECK(__byte_perm(a, b, 0x3210) == a);
    CHECK(__byte_perm(a, b, 0x7654) == b);
    CHECK(__byte_perm(a, b, 0x0145) == 0x7856f0deU);
    CHECK(__byte_perm(a, b, 0x321c) == 0x123456ffU);  // the sign of byte 4, 8 times
    CHECK(__byte_perm(a, b, 0x3218) == 0x12345600U);
    CHECK(__popc(0xf0f0) == 8);
    CHECK(__clz(1) == 31);
    CHECK(__ffs(8) == 4);
    CHECK(__ffs(0) == 0);
    CHECK(__umulhi(0xffffffffU, 2) == 1);
    CHECK(__float_as_uint(1) == 0x3f800000U);
}

}  // namespace
}  // namespace kimi::simt::host
