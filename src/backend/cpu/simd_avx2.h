// Sixteen-lane vectors as pairs of AVX2 vectors, with FMA.
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

namespace kimi::avx2 {

struct Simd {
    struct F {
        __m256 lo, hi;
    };
    struct Words {
        __m256i lo, hi;
    };
    static constexpr int kBf16Rows[4] = {4, 2, 1, 1};
    static constexpr int kInt4Rows[4] = {2, 1, 1, 1};
    static constexpr int kScoreQueries = 1;
    static constexpr int kSumQueries = 4, kSumCols = 1;  // vectors of columns

    static F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
    static F set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
    static F load(const float *p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
    static void store(float *p, F a) {
        _mm256_storeu_ps(p, a.lo);
        _mm256_storeu_ps(p + 8, a.hi);
    }
    static F load_bf16(const std::byte *p) { return {widen(p), widen(p + 16)}; }
    static F load_e4m3(const std::byte *p) { return {widen_e4m3(p), widen_e4m3(p + 8)}; }
    static void store_bf16(std::byte *p, F a) {
        // packus works within 128-bit lanes: put the four groups back in order.
        const __m256i packed = _mm256_packus_epi32(narrow(a.lo), narrow(a.hi));
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm256_permute4x64_epi64(packed, 0xd8));
    }
    static F add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
    static F sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
    static F mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
    static F div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
    static F max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
    static F min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
    static F fma(F a, F b, F c) {
        return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
    }
    static F round(F a) { return {round(a.lo), round(a.hi)}; }
    static F ldexp(F a, F n) { return {ldexp(a.lo, n.lo), ldexp(a.hi, n.hi)}; }
    static float sum(F a) {
        const __m256 eight = _mm256_add_ps(a.lo, a.hi);
        const __m128 four =
            _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }
    // The sums of four vectors.
    static void store_sums(float *p, F a, F b, F c, F d) {
        const __m256 ab = pair_sums(_mm256_add_ps(a.lo, a.hi), _mm256_add_ps(b.lo, b.hi));
        const __m256 cd = pair_sums(_mm256_add_ps(c.lo, c.hi), _mm256_add_ps(d.lo, d.hi));
        const __m256 abcd =
            _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
        _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(abcd), _mm256_extractf128_ps(abcd, 1)));
    }
    static Words load_words(const std::byte *p, int n) {
        std::uint32_t words[16] = {};
        memcpy(words, p, static_cast<std::size_t>(4 * n));
        return {_mm256_loadu_si256(reinterpret_cast<const __m256i *>(words)),
                _mm256_loadu_si256(reinterpret_cast<const __m256i *>(words + 8))};
    }
    static F nibble(Words w, int j) { return {nibble(w.lo, j), nibble(w.hi, j)}; }
    static F load_scales(const std::byte *p, int n) {
        std::uint64_t bits = 0;
        memcpy(&bits, p, static_cast<std::size_t>(2 * n));
        const __m128i words = _mm_cvtepu16_epi32(_mm_cvtsi64_si128(static_cast<long long>(bits)));
        const __m256i scales = _mm256_castsi128_si256(_mm_slli_epi32(words, 16));
        const auto each = [&](int a, int b) {
            return _mm256_castsi256_ps(
                _mm256_permutevar8x32_epi32(scales, _mm256_setr_epi32(a, a, a, a, b, b, b, b)));
        };
        return {each(0, 1), each(2, 3)};
    }

  private:
    static __m256 pair_sums(__m256 a, __m256 b) {
        return _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    }
    static __m256 widen(const std::byte *p) {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    }
    // The exponent and mantissa bits are those of a float, with a bias that differs by 120; subnormal codes are
    // multiples of 2^-9.
    static __m256 widen_e4m3(const std::byte *p) {
        const __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p)));
        const __m256i size = _mm256_and_si256(codes, _mm256_set1_epi32(0x7f));
        const __m256i sign = _mm256_slli_epi32(_mm256_xor_si256(codes, size), 24);
        const __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(size, 20), _mm256_set1_epi32(120 << 23));
        const __m256 small = _mm256_mul_ps(_mm256_cvtepi32_ps(size), _mm256_set1_ps(0x1p-9f));
        const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), size);
        const __m256i value = _mm256_blendv_epi8(normal, _mm256_castps_si256(small), is_small);
        const __m256i is_nan = _mm256_cmpeq_epi32(size, _mm256_set1_epi32(0x7f));
        const __m256i all = _mm256_blendv_epi8(value, _mm256_set1_epi32(0x7fc00000), is_nan);
        return _mm256_castsi256_ps(_mm256_or_si256(all, sign));
    }
    static __m256i narrow(__m256 a) {
        const __m256i bits = _mm256_castps_si256(a);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
        const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
        const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
        return _mm256_srli_epi32(_mm256_blendv_epi8(_mm256_add_epi32(bits, bias), nan, is_nan), 16);
    }
    static __m256 round(__m256 a) {
        return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }
    static __m256 ldexp(__m256 a, __m256 n) {
        const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
    }
    static __m256 nibble(__m256i w, int j) {
        const __m256i value = _mm256_and_si256(_mm256_srli_epi32(w, 4 * j), _mm256_set1_epi32(15));
        return _mm256_cvtepi32_ps(_mm256_sub_epi32(value, _mm256_set1_epi32(8)));
    }
};

}  // namespace kimi::avx2
