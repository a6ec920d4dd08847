// Conversions and arithmetic of single lanes, bit for bit as PTX defines them where it does. The
// approximations (exp2, log2, rcp, rsqrt) are computed in double and rounded once: the GPU differs
// from that by an ulp or two. Results are the same on every host.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/simt/types.h"
#include "tests/simt/vectors.h"

namespace kimi::simt {

template <typename To, typename From>
To bits(const From &value) {
    static_assert(sizeof(To) == sizeof(From));
    To out;
    std::memcpy(&out, &value, sizeof out);
    return out;
}

float exp2_approx(float x);
float log2_approx(float x);
float rcp_approx(float x);
float rsqrt_approx(float x);

bf16 float_to_bf16(float x);
f16 float_to_f16(float x);
float f16_to_float(f16 x);
e4m3 float_to_e4m3(float x);
float e4m3_to_float(e4m3 x);
// a * b + c on both halves, rounded once.
std::uint32_t fma_bf16(std::uint32_t a, std::uint32_t b, std::uint32_t c);

inline float bf16_to_float(bf16 x) {
    return std::bit_cast<float>(std::uint32_t{x} << 16);
}
inline std::uint32_t pack_bf16(float low, float high) {
    return std::uint32_t{float_to_bf16(high)} << 16 | float_to_bf16(low);
}
inline float2 unpack_bf16(std::uint32_t pair) {
    return {bf16_to_float(static_cast<bf16>(pair)), bf16_to_float(static_cast<bf16>(pair >> 16))};
}
inline std::uint32_t pack_f16(float low, float high) {
    return std::uint32_t{float_to_f16(high)} << 16 | float_to_f16(low);
}
inline float2 unpack_f16(std::uint32_t pair) {
    return {f16_to_float(static_cast<f16>(pair)), f16_to_float(static_cast<f16>(pair >> 16))};
}
inline std::uint16_t pack_e4m3(float low, float high) {
    return static_cast<std::uint16_t>(float_to_e4m3(high) << 8 | float_to_e4m3(low));
}
inline float2 unpack_e4m3(std::uint16_t pair) {
    return {e4m3_to_float(static_cast<e4m3>(pair)), e4m3_to_float(static_cast<e4m3>(pair >> 8))};
}
inline std::uint32_t e4m3_to_f16(std::uint16_t pair) {
    const float2 v = unpack_e4m3(pair);
    return pack_f16(v.x, v.y);
}
template <int Lut>
std::uint32_t lop3(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    const auto product = [&](int i) {
        return ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
    };
    return [&]<int... I>(std::integer_sequence<int, I...>) {
        return (((Lut >> I & 1) != 0 ? product(I) : 0U) | ...);
    }
    (std::make_integer_sequence<int, 8>());
}

template <typename T>
constexpr T min(T a, T b) {
    return b < a ? b : a;
}
template <typename T>
constexpr T max(T a, T b) {
    return a < b ? b : a;
}
inline float min(float a, float b) {
    return std::fmin(a, b);
}
inline float max(float a, float b) {
    return std::fmax(a, b);
}

}  // namespace kimi::simt

// ---- CUDA's own names

inline unsigned __float_as_uint(float x) {
    return std::bit_cast<unsigned>(x);
}
inline int __float_as_int(float x) {
    return std::bit_cast<int>(x);
}
inline float __uint_as_float(unsigned x) {
    return std::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
    return std::bit_cast<float>(x);
}
// Rounded to nearest, never contracted.
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fmaf_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
inline float rsqrtf(float x) {
    return static_cast<float>(1.0 / std::sqrt(double{x}));
}
inline int __popc(unsigned x) {
    return std::popcount(x);
}
inline int __popcll(unsigned long long x) {
    return std::popcount(x);
}
inline int __clz(int x) {
    return std::countl_zero(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
    return std::countl_zero(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
    return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
inline int __ffsll(long long x) {
    return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const std::uint64_t both = std::uint64_t{b} << 32 | a;
    unsigned out = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned s = selector >> 4 * i & 15U;
        unsigned byte = static_cast<unsigned>(both >> 8 * (s & 7U)) & 255U;
        if ((s & 8U) != 0) byte = (byte & 128U) != 0 ? 255U : 0U;
        out |= byte << 8 * i;
    }
    return out;
}
