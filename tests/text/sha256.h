// SHA-256, for goldens that are given as a hash.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace kimi::test {

namespace detail {
// The first 32 bits of the fractional part of the n-th prime's root.
inline std::array<std::uint32_t, 64> root_bits(long double power) {
    std::array<std::uint32_t, 64> bits{};
    std::size_t n = 0;
    for (int p = 2; n < 64; ++p) {
        bool prime = true;
        for (int d = 2; d * d <= p; ++d) prime = prime && p % d != 0;
        if (!prime) continue;
        const long double root = std::pow(static_cast<long double>(p), power);
        bits[n++] = static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
    }
    return bits;
}
}  // namespace detail

inline std::string sha256(std::string_view message) {
    static const auto constants = detail::root_bits(1.0L / 3);
    const auto initial = detail::root_bits(1.0L / 2);
    std::array<std::uint32_t, 8> state;
    std::copy_n(initial.begin(), 8, state.begin());

    std::string padded(message);
    padded.push_back('\x80');
    while (padded.size() % 64 != 56) padded.push_back('\0');
    for (int shift = 56; shift >= 0; shift -= 8)
        padded.push_back(static_cast<char>(message.size() * 8 >> shift));

    for (std::size_t block = 0; block < padded.size(); block += 64) {
        std::array<std::uint32_t, 64> w{};
        for (std::size_t i = 0; i < 64; ++i)
            w[i / 4] = w[i / 4] << 8 | static_cast<unsigned char>(padded[block + i]);
        for (std::size_t i = 16; i < 64; ++i) {
            const auto x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) +
                   (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
        }
        auto [a, b, c, d, e, f, g, h] = state;
        for (std::size_t i = 0; i < 64; ++i) {
            const auto t = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + constants[i] + w[i];
            const auto u = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                           ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t, d = c, c = b, b = a, a = t + u;
        }
        const std::array<std::uint32_t, 8> added{a, b, c, d, e, f, g, h};
        for (std::size_t i = 0; i < 8; ++i) state[i] += added[i];
    }
    std::string hex;
    for (const std::uint32_t word : state)
        for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
    return hex;
}

}  // namespace kimi::test
