// Fragment layouts: PTX, "Matrix Fragments for mma.m16n8k16 with floating point type" and
// "...m16n8k32".
//
// Every product is exact. Those of one element are added to C in order of k in double, and the sum
// is rounded to fp32 once. The tensor core aligns groups of products to the largest, keeps few bits
// below fp32 and truncates, in an undocumented order: a GPU's result may differ in the last bits.
#include "tests/simt/mma.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "tests/simt/numeric.h"

namespace kimi::simt::host {
namespace {

constexpr int kM = 16, kN = 8;

// One row of B or C.
using Row = double __attribute__((vector_size(kN * sizeof(double))));

#if defined(__x86_64__)
#define KIMI_SIMT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KIMI_SIMT_CLONES
#endif

// c += a b, with a [kM, k], b [k, kN], c [kM, kN]. Products of operands with up to 12 bits are
// exact in double, so that fused and separate multiply-adds give the same bits.
KIMI_SIMT_CLONES
void multiply(const double *__restrict__ a, const Row *__restrict__ b, Row *__restrict__ c, int k) {
    constexpr int kAtOnce = 4;
    for (int m = 0; m < kM; m += kAtOnce) {
        Row s0 = c[m], s1 = c[m + 1], s2 = c[m + 2], s3 = c[m + 3];
        const double *a0 = a + m * k;
        for (int i = 0; i < k; ++i) {
            s0 += a0[i] * b[i];
            s1 += a0[k + i] * b[i];
            s2 += a0[2 * k + i] * b[i];
            s3 += a0[3 * k + i] * b[i];
        }
        c[m] = s0, c[m + 1] = s1, c[m + 2] = s2, c[m + 3] = s3;
    }
}

KIMI_SIMT_CLONES
void widen_bf16(double *__restrict__ to, const std::uint16_t *__restrict__ from, int n) {
    for (int i = 0; i < n; ++i) {
        to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
    }
}

void widen_f16(double *to, const std::uint16_t *from, int n) {
    for (int i = 0; i < n; ++i) to[i] = f16_to_float(from[i]);
}

void widen_e4m3(double *to, const std::uint8_t *from, int n) {
    static const std::array<float, 256> table = [] {
        std::array<float, 256> t;
        for (unsigned v = 0; v < t.size(); ++v) t[v] = e4m3_to_float(static_cast<e4m3>(v));
        return t;
    }();
    for (int i = 0; i < n; ++i) to[i] = table[from[i]];
}

// Lane 4 g + j holds words j and 4 + j of rows g (registers 0, 2) and g + 8 (1, 3) of A, and words
// j and 4 + j of column g of B: a row or column is 8 words of operands with increasing k.
template <typename Element, typename Widen>
void multiply_words(float *d, const std::array<Words, 4> &a, const std::array<Words, 2> &b,
                    Widen &&widen) {
    constexpr int kWords = 8, k = kWords * 4 / static_cast<int>(sizeof(Element));
    Element packed_a[kM * k], packed_b[kN * k];
    for (int g = 0; g < 8; ++g) {
        const auto copy = [g](Element *to, Words low, Words high) {
            std::memcpy(to, low + 4 * g, 16);
            std::memcpy(to + k / 2, high + 4 * g, 16);
        };
        copy(packed_a + g * k, a[0], a[2]);
        copy(packed_a + (g + 8) * k, a[1], a[3]);
        copy(packed_b + g * k, b[0], b[1]);
    }
    double wide_a[kM * k], wide_b[kN * k];
    widen(wide_a, packed_a, kM * k);
    widen(wide_b, packed_b, kN * k);
    Row rows_b[k], c[kM];
    for (int i = 0; i < k; ++i) {
        for (int n = 0; n < kN; ++n) rows_b[i][n] = wide_b[n * k + i];
    }
    for (int m = 0; m < kM; ++m) {
        for (int n = 0; n < kN; ++n) c[m][n] = d[m * kN + n];
    }
    multiply(wide_a, rows_b, c, k);
    for (int m = 0; m < kM; ++m) {
        for (int n = 0; n < kN; ++n) {
            const auto x = static_cast<float>(c[m][n]);
            d[m * kN + n] = std::isnan(x) ? std::bit_cast<float>(0x7fffffffU) : x;
        }
    }
}

}  // namespace

void multiply_bf16(float *d, const std::array<Words, 4> &a, const std::array<Words, 2> &b) {
    multiply_words<std::uint16_t>(d, a, b, widen_bf16);
}
void multiply_f16(float *d, const std::array<Words, 4> &a, const std::array<Words, 2> &b) {
    multiply_words<std::uint16_t>(d, a, b, widen_f16);
}
void multiply_e4m3(float *d, const std::array<Words, 4> &a, const std::array<Words, 2> &b) {
    multiply_words<std::uint8_t>(d, a, b, widen_e4m3);
}

}  // namespace kimi::simt::host
