#include "bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/thread_pool.h"

namespace kimi::bench {

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
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        // The sums are used, so that the reads cannot be left out.
        if (std::reduce(sums.begin(), sums.end()) == data.size())
            best = std::max(best, static_cast<double>(kBytes) / seconds.count() / 1e9);
    }
    return best;
}

}  // namespace kimi::bench
