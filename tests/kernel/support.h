// Helpers of the tests of kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "tests/check.h"
#include "tests/kernel/device.h"

namespace kimi::test {

inline std::vector<float> random_floats(std::size_t n, unsigned seed, float scale = 1) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-scale, scale);
    std::vector<float> v(n);
    for (float &x : v) x = value(random);
    return v;
}
inline std::vector<bf16> narrowed(const std::vector<float> &v) {
    std::vector<bf16> out(v.size());
    std::transform(v.begin(), v.end(), out.begin(), to_bf16);
    return out;
}
inline std::vector<float> widened(const std::vector<bf16> &v) {
    std::vector<float> out(v.size());
    std::transform(v.begin(), v.end(), out.begin(), to_float);
    return out;
}
inline std::vector<bf16> random_bf16(std::size_t n, unsigned seed, float scale = 1) {
    return narrowed(random_floats(n, seed, scale));
}
// A count that kernels read on the device.
inline std::vector<std::uint32_t> one(std::uint32_t n) {
    return {n};
}

// The largest relative difference: half the distance between neighbouring bf16.
inline constexpr double kBf16Error = 1.0 / 256;

#ifdef KIMI_SIMT

using simt::host::Counters;

// One line for people: the evidence of what a kernel moves.
inline void print_cost(const std::string &what, const Counters &c, std::uint64_t must_move) {
    std::uint64_t distinct = 0;
    for (const auto &b : c.buffers)
        distinct += b.distinct_sectors_read + b.distinct_sectors_written;
    simt::host::Traffic all = c.global_loads();
    all += c.global_stores();
    const auto n = [](std::uint64_t x) { return static_cast<unsigned long long>(x); };
    std::printf(
        "kernel: %-44s must move %9llu B, moves %9llu B; sectors %8llu, ideal %8llu; "
        "mma %7llu; bank conflicts %llu of %llu\n",
        what.c_str(), n(must_move), n(32 * distinct), n(all.units), n(all.ideal),
        n(c.instructions.mma()), n(c.bank_conflicts()), n(c.shared_total().units));
}

#endif

}  // namespace kimi::test
