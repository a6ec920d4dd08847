// Keys that order the tokens of a row by logit, the lower id first among equals: larger is better.
#pragma once

#include "kernels/simt/simt.h"

namespace kimi {

// Orders like the numbers do; -0 is 0. Not for NaN. Never 0.
__device__ __forceinline__ std::uint32_t ordered(float x) {
    const std::uint32_t bits = __float_as_uint(x == 0 ? 0.0F : x);
    return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}
__device__ __forceinline__ float unordered(std::uint32_t key) {
    return __uint_as_float(key & 0x80000000U ? key & 0x7FFFFFFFU : ~key);
}
__device__ __forceinline__ unsigned long long token_key(float logit, std::uint32_t token) {
    return static_cast<unsigned long long>(ordered(logit)) << 32 | ~token;
}
__device__ __forceinline__ std::uint32_t token_of(unsigned long long key) {
    return ~static_cast<std::uint32_t>(key);
}

}  // namespace kimi
