#include "base/thread_pool.h"

#include <signal.h>
#include <unistd.h>

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

TEST_CASE("thread pool: workers leave the host's signals to its own threads") {
    const ThreadPool pool(3);
    const std::string own = std::to_string(getpid());
    int n_workers = 0;
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        if (task.path().filename() == own) continue;
        std::ifstream status(task.path() / "status");
        std::string line;
        while (std::getline(status, line))
            if (line.starts_with("SigBlk:")) {
                const auto blocked = std::stoull(line.substr(7), nullptr, 16);
                CHECK((blocked & (1ULL << (SIGINT - 1))) != 0);
                CHECK((blocked & (1ULL << (SIGALRM - 1))) != 0);
                ++n_workers;
            }
    }
    CHECK((n_workers == 2 || test::kInstrumented));  // a sanitizer has threads too
}

TEST_CASE("thread pool: a worker that is late for a short loop takes no task of the next one") {
    ThreadPool pool(4);
    std::vector<std::atomic<int>> hits(40);
    int wrong = 0;
    for (int loop = 0; loop < 300000; ++loop) {
        const std::size_t n = loop % 2 == 0 ? 3 : hits.size();
        for (auto &h : hits) h.store(0, std::memory_order_relaxed);
        pool.run(n, [&](std::size_t i, unsigned) { hits[i].fetch_add(1); });
        for (std::size_t i = 0; i < hits.size(); ++i) wrong += hits[i].load() != (i < n);
    }
    CHECK(wrong == 0);
}
