// What parameter structs and launcher headers may use. A translation unit sees plain CUDA pointers,
// unless KIMI_SIMT is defined (kernels on the CPU, tests/simt): then a pointer carries the
// allocation it points into and every access is checked.
#pragma once

#include <cstdint>

#include "base/bf16.h"

#if defined(KIMI_SIMT) && defined(__CUDACC__)
#error "KIMI_SIMT is for the host compiler only"
#endif

#ifdef __CUDACC__
#define KIMI_HOST_DEVICE __host__ __device__
#else
#define KIMI_HOST_DEVICE
#endif

struct CUstream_st;

namespace kimi {

using f16 = std::uint16_t;  // storage of an IEEE half
using e4m3 = std::uint8_t;  // storage of an fp8 with 4 exponent and 3 mantissa bits, no infinity

namespace simt {

using Stream = ::CUstream_st *;  // is cudaStream_t

struct Dim3 {
    unsigned x = 1, y = 1, z = 1;
    constexpr bool operator==(const Dim3 &) const = default;
};

#ifndef KIMI_SIMT
template <typename T>
using Global = T *;
template <typename T>
using Shared = T *;

// Registers of one lane that an mma or ldmatrix instruction takes together. Not initialised, unless
// by
// `= {}` to zero.
template <typename T, int N>
struct Fragment {
    T v[N];
    KIMI_HOST_DEVICE constexpr T &operator[](int i) { return v[i]; }
    KIMI_HOST_DEVICE constexpr const T &operator[](int i) const { return v[i]; }
};
#endif

}  // namespace simt
}  // namespace kimi

#ifdef KIMI_SIMT
#include "tests/simt/fragment.h"
#include "tests/simt/pointer.h"
#endif

namespace kimi::simt {

// The operands of the m16n8k16 (16-bit) and m16n8k32 (8-bit) shapes.
using FragA = Fragment<std::uint32_t, 4>;
using FragB = Fragment<std::uint32_t, 2>;
using FragC = Fragment<float, 4>;

}  // namespace kimi::simt
