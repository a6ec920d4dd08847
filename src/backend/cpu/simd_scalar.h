// Sixteen-lane vectors in plain C++.
//
// The interface of all simd_*.h, each compiled with the flags of its own instruction set.
// Everything is a member of a type in the instruction set's own namespace and no std:: function is
// used: the linker keeps one copy of an inline function that several files emit, perhaps one that
// this CPU cannot run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kimi::scalar {

struct Simd {
    struct F {
        float lane[16];
    };
    struct Words {
        std::uint32_t lane[16];
    };
    static constexpr int kBf16Rows[4] = {1, 1, 1, 1};
    static constexpr int kInt4Rows[4] = {1, 1, 1, 1};
    static constexpr int kScoreQueries = 1;
    static constexpr int kSumQueries = 1, kSumCols = 1;  // vectors of columns

    template <typename Op>
    static F each(Op op) {
        F out;
        for (int i = 0; i < 16; ++i) out.lane[i] = op(i);
        return out;
    }
    static F zero() { return set(0); }
    static F set(float x) {
        return each([=](int) { return x; });
    }
    static F load(const float *p) {
        return each([=](int i) { return p[i]; });
    }
    static void store(float *p, F a) { memcpy(p, a.lane, sizeof a.lane); }
    static F load_bf16(const std::byte *p) {
        return each([=](int i) { return widen(p + 2 * i); });
    }
    static F load_e4m3(const std::byte *p) {
        return each([=](int i) {
            const auto code = static_cast<unsigned>(p[i]);
            const unsigned exponent = code >> 3 & 15, mantissa = code & 7;
            float size = exponent == 0 ? __builtin_ldexpf(static_cast<float>(mantissa), -9)
                                       : __builtin_ldexpf(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 10);
            if (exponent == 15 && mantissa == 7) size = __builtin_nanf("");
            return code & 0x80 ? -size : size;
        });
    }
    static void store_bf16(std::byte *p, F a) {
        for (int i = 0; i < 16; ++i) {
            std::uint32_t bits;
            memcpy(&bits, &a.lane[i], sizeof bits);
            const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
            bits = nan ? bits | 0x400000U : bits + 0x7fffU + ((bits >> 16) & 1U);
            const auto half = static_cast<std::uint16_t>(bits >> 16);
            memcpy(p + 2 * i, &half, sizeof half);
        }
    }
    static F add(F a, F b) {
        return each([&](int i) { return a.lane[i] + b.lane[i]; });
    }
    static F sub(F a, F b) {
        return each([&](int i) { return a.lane[i] - b.lane[i]; });
    }
    static F mul(F a, F b) {
        return each([&](int i) { return a.lane[i] * b.lane[i]; });
    }
    static F div(F a, F b) {
        return each([&](int i) { return a.lane[i] / b.lane[i]; });
    }
    static F max(F a, F b) {
        return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
    }
    static F min(F a, F b) {
        return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
    }
    static F fma(F a, F b, F c) {
        return each([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
    }
    static F round(F a) {
        return each([&](int i) { return __builtin_nearbyintf(a.lane[i]); });
    }
    static F ldexp(F a, F n) {
        return each(
            [&](int i) { return __builtin_ldexpf(a.lane[i], static_cast<int>(n.lane[i])); });
    }
    static float sum(F a) {
        for (int n = 8; n > 0; n /= 2)
            for (int i = 0; i < n; ++i) a.lane[i] += a.lane[i + n];
        return a.lane[0];
    }
    // The sums of four vectors.
    static void store_sums(float *p, F a, F b, F c, F d) {
        p[0] = sum(a), p[1] = sum(b), p[2] = sum(c), p[3] = sum(d);
    }
    static Words load_words(const std::byte *p, int n) {
        Words out = {};
        memcpy(out.lane, p, static_cast<std::size_t>(4 * n));
        return out;
    }
    static F nibble(Words w, int j) {
        return each([&](int i) {
            return static_cast<float>(static_cast<int>(w.lane[i] >> (4 * j) & 15) - 8);
        });
    }
    static F load_scales(const std::byte *p, int n) {
        return each([=](int i) { return i / 4 < n ? widen(p + 2 * (i / 4)) : 0.0f; });
    }

  private:
    static float widen(const std::byte *p) {
        std::uint16_t half;
        memcpy(&half, p, sizeof half);
        const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
        float out;
        memcpy(&out, &bits, sizeof out);
        return out;
    }
};

}  // namespace kimi::scalar
