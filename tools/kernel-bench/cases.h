// What kernel-bench measures, by group.
#pragma once

#include <algorithm>
#include <random>

#include "tools/kernel-bench/measure.h"

namespace kimi::bench {

struct Machine {
    int n_sms;
    std::size_t l2_bytes;
    double copy_bytes_per_s;

    // Copies of so many bytes that together do not fit into L2.
    std::size_t turns(std::size_t bytes) const {
        return std::clamp<std::size_t>(3 * l2_bytes / std::max<std::size_t>(bytes, 1) + 1, 1, 24);
    }
};

// Small bf16 numbers of both signs.
inline std::vector<std::uint8_t> random_bytes(std::size_t n) {
    std::mt19937 random(1);
    std::vector<std::uint8_t> bytes(n);
    for (std::size_t i = 0; i < n; ++i)
        bytes[i] = static_cast<std::uint8_t>(i % 2 == 0 ? random() : (random() & 0x80) | 0x3c);
    return bytes;
}

void bench_attention(const Machine &machine);
void bench_products(const Machine &machine);  // skinny_gemm and the experts
void bench_rows(const Machine &machine);      // what works row by row
void bench_sums(const Machine &machine);      // over the GPUs of the machine

}  // namespace kimi::bench
