#include "tests/simt/numeric.h"

namespace kimi::simt {
namespace {

constexpr float kNan = std::bit_cast<float>(0x7fffffffU);  // as the GPU writes it

// .ftz: subnormal numbers are zeros of their sign.
float flush(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    return (u & 0x7f800000U) == 0 ? std::bit_cast<float>(u & 0x80000000U) : x;
}

// Rounds x to float; if that is not exact, to the neighbour with an odd last bit, so that a second
// rounding to fewer bits gives what a single one would.
float round_to_odd(double x) {
    const auto near = static_cast<float>(x);
    if (double{near} == x || !std::isfinite(near)) return near;
    const auto u = std::bit_cast<std::uint32_t>(near);
    if ((u & 1U) != 0) return near;
    const bool away = std::fabs(x) > std::fabs(double{near});
    return std::bit_cast<float>(away ? u + 1 : u - 1);
}

}  // namespace

float exp2_approx(float x) {
    x = flush(x);
    if (std::isnan(x)) return kNan;
    if (x >= 128) return std::bit_cast<float>(0x7f800000U);
    if (x < -126) return 0;
    const int n = static_cast<int>(x + 256.5F) - 256;
    const double t = (double{x} - n) * 0.69314718055994530942;
    // Taylor's series of e^t, |t| < 0.35: relative error below 1e-9.
    double p = 1.0 / 40320;
    for (const double c : {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) {
        p = p * t + c;
    }
    return flush(
        static_cast<float>(p * std::bit_cast<double>(static_cast<std::uint64_t>(1023 + n) << 52)));
}

float log2_approx(float x) {
    x = flush(x);
    return std::isnan(x) || x < 0 ? kNan : static_cast<float>(std::log2(double{x}));
}

float rcp_approx(float x) {
    return std::isnan(x) ? kNan : flush(1.0F / flush(x));
}

float rsqrt_approx(float x) {
    x = flush(x);
    return std::isnan(x) || x < 0 ? kNan : static_cast<float>(1.0 / std::sqrt(double{x}));
}

bf16 float_to_bf16(float x) {
    return std::isnan(x) ? bf16{0x7fff} : to_bf16(x);
}

f16 float_to_f16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const auto sign = static_cast<f16>(u >> 16 & 0x8000U);
    const float a = std::fabs(x);
    if (std::isnan(x)) return 0x7fff;
    if (a >= 65520) return sign | 0x7c00;
    if (a < 0x1p-14F) {  // subnormal: multiples of 2^-24
        const float steps = a * 0x1p24F + 0x1p23F;
        return static_cast<f16>(sign | (std::bit_cast<std::uint32_t>(steps) & 0x7ffU));
    }
    const std::uint32_t m = u & 0x7fffffffU;
    const std::uint32_t rounded = m + 0xfffU + (m >> 13 & 1U);
    return static_cast<f16>(sign | ((rounded >> 13) - (112U << 10)));
}

float f16_to_float(f16 x) {
    const std::uint32_t sign = (x & 0x8000U) << 16;
    const std::uint32_t exponent = x >> 10 & 0x1fU, mantissa = x & 0x3ffU;
    if (exponent == 0) {
        const float a = static_cast<float>(mantissa) * 0x1p-24F;
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) | sign);
    }
    const std::uint32_t high = exponent == 0x1fU ? 0xffU : exponent + 112;
    return std::bit_cast<float>(sign | high << 23 | mantissa << 13);
}

e4m3 float_to_e4m3(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const auto sign = static_cast<e4m3>(u >> 24 & 0x80U);
    const float a = std::fabs(x);
    if (std::isnan(x)) return 0x7f;
    if (a >= 448) return sign | 0x7e;
    if (a < 0x1p-6F) {  // subnormal: multiples of 2^-9
        const float steps = a * 0x1p9F + 0x1p23F;
        return static_cast<e4m3>(sign | (std::bit_cast<std::uint32_t>(steps) & 0xfU));
    }
    const std::uint32_t m = u & 0x7fffffffU;
    const std::uint32_t rounded = m + 0x7ffffU + (m >> 20 & 1U);
    return static_cast<e4m3>(sign | ((rounded >> 20) - (120U << 3)));
}

float e4m3_to_float(e4m3 x) {
    const std::uint32_t sign = (x & 0x80U) << 24;
    const std::uint32_t exponent = x >> 3 & 0xfU, mantissa = x & 7U;
    if ((x & 0x7fU) == 0x7fU) return kNan;
    if (exponent == 0) {
        const float a = static_cast<float>(mantissa) * 0x1p-9F;
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) | sign);
    }
    return std::bit_cast<float>(sign | (exponent + 120) << 23 | mantissa << 20);
}

namespace {

// Rounds a double, from which the addition has lost something, if `lost` is not 0.
bf16 round_sum(double sum, double lost) {
    if (std::isfinite(sum) && lost != 0 && (std::bit_cast<std::uint64_t>(sum) & 1U) == 0) {
        sum = std::nextafter(sum, lost > 0 ? INFINITY : -INFINITY);  // to odd, as round_to_odd
    }
    return float_to_bf16(round_to_odd(sum));
}

bf16 fma_bf16_half(bf16 a, bf16 b, bf16 c) {
    const double product = double{bf16_to_float(a)} * double{bf16_to_float(b)};  // exact
    const double addend = bf16_to_float(c);
    const double sum = product + addend;
    const double part = sum - product;
    const double lost = (product - (sum - part)) + (addend - part);
    // Numbers that are normal in bf16 are rounded where they are.
    constexpr unsigned kDropped = 52 - 7, kRebias = (1023 - 127) << 7, kNormal = 253;
    const auto u = std::bit_cast<std::uint64_t>(sum);
    const auto exponent = static_cast<unsigned>(u >> 52) & 0x7ffU;
    if (lost != 0 || exponent - (1023 - 126) >= kNormal) return round_sum(sum, lost);
    const std::uint64_t rounded =
        u + ((std::uint64_t{1} << (kDropped - 1)) - 1) + (u >> kDropped & 1U);
    const auto magnitude = static_cast<unsigned>(rounded >> kDropped) & 0x3ffffU;
    return static_cast<bf16>((u >> 48 & 0x8000U) | (magnitude - kRebias));
}

}  // namespace

std::uint32_t fma_bf16(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    const auto half = [&](int shift) {
        return std::uint32_t{fma_bf16_half(static_cast<bf16>(a >> shift),
                                           static_cast<bf16>(b >> shift),
                                           static_cast<bf16>(c >> shift))};
    };
    return half(16) << 16 | half(0);
}

}  // namespace kimi::simt
