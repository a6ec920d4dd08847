// bfloat16: the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace kimi {

using bf16 = std::uint16_t;

inline float to_float(bf16 value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// Rounds to nearest, ties to even; NaN stays NaN.
inline bf16 to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<bf16>((bits >> 16) | 0x40U);
    return static_cast<bf16>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace kimi
