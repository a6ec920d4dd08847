// Sixteen-lane vectors of AVX-512.
//
// The interface of all simd_*.h, each compiled with the flags of its own instruction set.
// Everything is a member of a type in the instruction set's own namespace and no std:: function is
// used: the linker keeps one copy of an inline function that several files emit, perhaps one that
// this CPU cannot run.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kimi::avx512 {

struct Simd {
    using F = __m512;
    using Words = __m512i;  // 16 words of 8 nibbles
    // Accumulators that fit the registers beside the operands: rows of weights at 1, 2, 4 and 8
    // tokens.
    static constexpr int kBf16Rows[4] = {8, 4, 4, 2};
    static constexpr int kInt4Rows[4] = {4, 4, 4, 2};
    static constexpr int kScoreQueries = 4;
    static constexpr int kSumQueries = 8, kSumCols = 2;  // vectors of columns

    static F zero() { return _mm512_setzero_ps(); }
    static F set(float x) { return _mm512_set1_ps(x); }
    static F load(const float *p) { return _mm512_loadu_ps(p); }
    static void store(float *p, F a) { _mm512_storeu_ps(p, a); }
    static F load_bf16(const std::byte *p) {
        const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
    }
    // The exponent and mantissa bits are those of a float, with a bias that differs by 120; subnormal codes are
    // multiples of 2^-9.
    static F load_e4m3(const std::byte *p) {
        const __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
        const __m512i size = _mm512_and_si512(codes, _mm512_set1_epi32(0x7f));
        const __m512i sign = _mm512_slli_epi32(_mm512_xor_si512(codes, size), 24);
        const __m512i normal = _mm512_add_epi32(_mm512_slli_epi32(size, 20), _mm512_set1_epi32(120 << 23));
        const F small = _mm512_mul_ps(_mm512_cvtepi32_ps(size), _mm512_set1_ps(0x1p-9f));
        const __mmask16 is_small = _mm512_cmplt_epi32_mask(size, _mm512_set1_epi32(8));
        const __m512i value = _mm512_mask_mov_epi32(normal, is_small, _mm512_castps_si512(small));
        const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(size, _mm512_set1_epi32(0x7f));
        const __m512i all = _mm512_mask_mov_epi32(value, is_nan, _mm512_set1_epi32(0x7fc00000));
        return _mm512_castsi512_ps(_mm512_or_si512(all, sign));
    }
    // Rounds to nearest even; NaN stays NaN.
    static void store_bf16(std::byte *p, F a) {
        const __m512i bits = _mm512_castps_si512(a);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
        const __m512i nan = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
        const __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
        const __m512i sum = _mm512_add_epi32(bits, bias);
        const __m512i rounded = _mm512_mask_mov_epi32(sum, is_nan, nan);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(p),
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
    }
    static F add(F a, F b) { return _mm512_add_ps(a, b); }
    static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
    static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
    static F div(F a, F b) { return _mm512_div_ps(a, b); }
    static F max(F a, F b) { return _mm512_max_ps(a, b); }
    static F min(F a, F b) { return _mm512_min_ps(a, b); }
    static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
    static F round(F a) {
        return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    // a * 2^n for whole n within the exponent range
    static F ldexp(F a, F n) { return _mm512_scalef_ps(a, n); }
    static float sum(F a) { return _mm512_reduce_add_ps(a); }
    // The sums of four vectors.
    static void store_sums(float *p, F a, F b, F c, F d) {
        const F ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        const F cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        const F abcd =
            _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
        const __m256 half =
            _mm256_add_ps(_mm512_castps512_ps256(abcd),
                          _mm512_castps512_ps256(_mm512_shuffle_f32x4(abcd, abcd, 0x0e)));
        _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
    }
    // n <= 16 words; the others are 0
    static Words load_words(const std::byte *p, int n) {
        const auto mask = static_cast<__mmask16>((1U << n) - 1);
        return _mm512_maskz_loadu_epi32(mask, p);
    }
    // value of nibble j of each word: its offset-binary value - 8
    static F nibble(Words w, int j) {
        const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
        return _mm512_permutexvar_ps(_mm512_srli_epi32(w, static_cast<unsigned>(4 * j)), table);
    }
    // n <= 4 bf16 scales, each repeated four times; the others are 0
    static F load_scales(const std::byte *p, int n) {
        std::uint64_t bits = 0;
        memcpy(&bits, p, static_cast<std::size_t>(2 * n));
        const __m128i words = _mm_cvtepu16_epi32(_mm_cvtsi64_si128(static_cast<long long>(bits)));
        const __m512i scales = _mm512_castsi128_si512(_mm_slli_epi32(words, 16));
        const __m512i each = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        return _mm512_castsi512_ps(_mm512_permutexvar_epi32(each, scales));
    }
};

}  // namespace kimi::avx512
