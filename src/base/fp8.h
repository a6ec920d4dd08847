// OCP fp8 e4m3: 4 exponent bits with bias 7, 3 mantissa bits, no infinity, largest value 448.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kimi {

inline constexpr float kE4m3Max = 448.0f;

inline float from_e4m3(std::uint8_t code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(0x7fc00000U);
    const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                     : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    return code & 0x80 ? -size : size;
}

// Rounds to nearest, ties to even; larger values become the largest. NaN stays NaN.
inline std::uint8_t to_e4m3(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80U);
    const float size = std::fabs(value);
    if (std::isnan(value)) return sign | 0x7f;
    if (size >= kE4m3Max) return sign | 0x7e;
    if (size < 0x1p-6f) {  // subnormal: a multiple of 2^-9
        return sign | static_cast<std::uint8_t>(std::nearbyint(size * 512));
    }
    // Keep three mantissa bits; a carry moves into the exponent.
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    const std::uint32_t rounded = magnitude + 0x7ffffU + (magnitude >> 20 & 1U);
    const std::uint32_t code = (rounded >> 20) - (120U << 3);
    return sign | static_cast<std::uint8_t>(code > 0x7eU ? 0x7eU : code);
}

}  // namespace kimi
