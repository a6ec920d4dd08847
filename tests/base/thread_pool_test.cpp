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
    CHECK(n_workers == 2);
}
