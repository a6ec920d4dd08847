#include "machine.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/thread_pool.h"

namespace kimi::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr int kRounds = 200000, kChains = 12;

using Vector4 = float __attribute__((vector_size(16)));
using Vector8 = float __attribute__((vector_size(32)));
using Vector16 = float __attribute__((vector_size(64)));

// Independent chains of vectors: enough to fill every pipeline, few enough to stay in registers.
template <typename Vector>
[[gnu::always_inline]] inline float fma_chains(float a) {
    Vector sum[kChains];
    const Vector factor = Vector{} + a;
    for (int i = 0; i < kChains; ++i) sum[i] = factor * static_cast<float>(i);
    for (int round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
        for (int i = 0; i < kChains; ++i) sum[i] = sum[i] * factor + factor;
    float total = 0;
    for (const Vector &v : sum) total += v[0];
    return total;
}

[[gnu::target("avx512f,fma")]] float fma_avx512(float a) {
    return fma_chains<Vector16>(a);
}
[[gnu::target("avx2,fma")]] float fma_avx2(float a) {
    return fma_chains<Vector8>(a);
}
float fma_scalar(float a) {
    return fma_chains<Vector4>(a);
}

struct FmaLoop {
    float (*run)(float);
    int lanes;
};

FmaLoop fma_loop() {
    switch (best_cpu_isa()) {
        case CpuIsa::avx512:
            return {fma_avx512, 16};
        case CpuIsa::avx2:
            return {fma_avx2, 8};
        case CpuIsa::scalar:
            break;
    }
    return {fma_scalar, 4};
}

}  // namespace

double read_bandwidth(unsigned n_threads) {
    constexpr std::size_t kBytes = std::size_t{3} << 29, kPiece = std::size_t{1} << 20;
    const std::vector<std::uint64_t> data(kBytes / sizeof(std::uint64_t), 1);
    const std::size_t n = kPiece / sizeof(std::uint64_t), n_pieces = data.size() / n;
    std::vector<std::uint64_t> sums(n_pieces);
    ThreadPool pool(n_threads);
    double best = 0;
    for (int pass = 0; pass < 5; ++pass) {
        const auto start = std::chrono::steady_clock::now();
        pool.run(n_pieces, [&](std::size_t i, unsigned) {
            const auto begin = data.begin() + static_cast<std::ptrdiff_t>(i * n);
            sums[i] = std::reduce(begin, begin + static_cast<std::ptrdiff_t>(n));
        });
        const double seconds = seconds_since(start);
        // The sums are used, so that the reads cannot be left out.
        if (std::reduce(sums.begin(), sums.end()) == data.size())
            best = std::max(best, static_cast<double>(kBytes) / seconds / 1e9);
    }
    return best;
}

double fma_rate(unsigned n_threads) {
    const FmaLoop loop = fma_loop();
    ThreadPool pool(n_threads);
    std::vector<float> results(n_threads);
    double best = 0;
    for (int pass = 0; pass < 10; ++pass) {
        const auto start = std::chrono::steady_clock::now();
        pool.run(n_threads, [&](std::size_t i, unsigned) {
            results[i] = loop.run(0.5f + 1e-3f * static_cast<float>(pass));
        });
        const double fmas = double{kRounds} * kChains * loop.lanes * n_threads;
        best = std::max(best, fmas / seconds_since(start) / 1e9);
    }
    return results[0] > 0 ? best : 0;
}

}  // namespace kimi::bench
