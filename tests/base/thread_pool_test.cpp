#include "base/thread_pool.h"

#include <algorithm>
#include <numeric>

#include "check.h"

using namespace kimi;

TEST_CASE("thread pool: every task of every loop runs exactly once") {
    for (unsigned n_threads : {1U, 2U, 5U}) {
        ThreadPool pool(n_threads);
        CHECK(pool.n_threads() == n_threads);
        std::vector<int> hits(97);
        for (int loop = 1; loop <= 2000; ++loop) {
            const std::size_t n = static_cast<std::size_t>(loop) % hits.size();
            std::fill(hits.begin(), hits.end(), 0);
            pool.run(n, [&](std::size_t i, unsigned thread) { hits[i] += thread < n_threads; });
            const bool once = std::all_of(hits.begin(), hits.begin() + static_cast<long>(n),
                                          [](int h) { return h == 1; });
            REQUIRE(once);
            REQUIRE(std::accumulate(hits.begin(), hits.end(), 0) == static_cast<int>(n));
        }
    }
}
