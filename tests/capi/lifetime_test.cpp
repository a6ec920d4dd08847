// Handles come and go, many times: races of cancel and destroy, and what is left afterwards.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "capi/client.h"
#include "check.h"
#include "tiny_model.h"

namespace {

// A tiny engine; the files stay mapped when the folder is gone.
client::Engine tiny(const std::string &fields) {
    const kimi::test::TempDir dir;
    kimi::test::write_tiny_model(dir.path());
    return client::load(dir.write(
        "d.json",
        R"({"checkpoint": ".", "drafter": "drafter", "context_limit": 64, )" + fields + "}"));
}

// An engine with pages for three sessions, as many as a race has alive: the one that steps, the one
// on offer and the one in the canceller's hands.
client::Engine tiny_of_three(const std::string &fields) {
    return tiny(R"("kv": {"capacity_tokens": 192}, )" + fields);
}

// One thread cancels the sessions of another, and either is the last to let go.
void race(kimi_engine *engine, int n) {
    std::atomic<kimi_session *> offered{nullptr};
    std::jthread canceller([&](const std::stop_token &done) {
        while (!done.stop_requested()) {
            kimi_session *session = offered.exchange(nullptr);
            kimi_session_cancel(session);
            kimi_session_destroy(session);
        }
    });
    const std::vector<int32_t> prompt = {1, 2, 3};
    int n_cancelled = 0;
    for (int i = 0; i < n; ++i) {
        const client::Session session = client::open(engine);
        client::append(session.get(), prompt);
        kimi_session_destroy(offered.exchange(kimi_session_retain(session.get())));
        for (int s = 0; s < i % 3; ++s)
            n_cancelled += client::step(session.get()).finish_reason == KIMI_FINISH_CANCELLED;
    }
    canceller.request_stop();
    canceller.join();
    kimi_session_destroy(offered.exchange(nullptr));
    MESSAGE(n, " sessions, ", n_cancelled, " steps met the cancel");
    kimi_engine_statistics stats;
    kimi_engine_statistics_init(&stats);
    REQUIRE(kimi_engine_stats(engine, &stats, nullptr) == KIMI_OK);
    CHECK(stats.sessions == 0);
    CHECK(stats.pages_free + stats.pages_cached == stats.pages);
}

struct Footprint {
    std::size_t heap, descriptors, threads, mappings, resident;
};

std::size_t entries(const char *folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

Footprint footprint() {
    malloc_trim(0);
    std::size_t total = 0, resident = 0, n = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) ++n;
    return {mallinfo2().uordblks, entries("/proc/self/fd"), entries("/proc/self/task"), n,
            resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE))};
}

void check_returned(const Footprint &before, const Footprint &after) {
    CHECK(after.descriptors == before.descriptors);
    CHECK(after.threads == before.threads);
    if (kimi::test::kInstrumented) return;
    CHECK(after.heap <= before.heap + 4096);
    CHECK(after.mappings <= before.mappings + 2);
    CHECK(after.resident <= before.resident + (std::size_t{1} << 20));
}

void load_and_unload(int n) {
    const auto cycle = [] {
        const client::Engine engine = tiny(R"("ranks": 2, "threads": 4)");
        const client::Session session = client::open(engine.get());
        client::append(session.get(), {1, 2, 3});
        client::step(session.get());
        client::step(session.get());
    };
    for (int i = 0; i < 3; ++i) cycle();
    const Footprint before = footprint();
    for (int i = 0; i < n; ++i) cycle();
    check_returned(before, footprint());
}

}  // namespace

TEST_CASE("lifetime: a session is cancelled and destroyed by one thread while another steps") {
    race(tiny_of_three(R"("threads": 1)").get(), 1000);
    race(tiny_of_three(R"("ranks": 2, "threads": 2)").get(), 300);
}

TEST_CASE("lifetime: 100,000 races of cancel and destroy" * doctest::test_suite("slow")) {
    race(tiny_of_three(R"("threads": 1)").get(), 100'000);
}

TEST_CASE("lifetime: the library's threads leave signals to the program") {
    const client::Engine engine = tiny(R"("ranks": 2, "threads": 4)");
    const client::Session session = client::open(engine.get());
    client::append(session.get(), {1, 2, 3});
    REQUIRE(kimi_session_submit(session.get(), nullptr) == KIMI_OK);
    int n_threads = 0;
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        if (task.path().filename() == std::to_string(getpid())) continue;
        std::ifstream status(task.path() / "status");
        for (std::string line; std::getline(status, line);) {
            if (!line.starts_with("SigBlk:")) continue;
            const std::uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
            for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM})
                CHECK((blocked >> (signal - 1) & 1) == 1);
            ++n_threads;
        }
    }
    CHECK(n_threads >= 5);  // two ranks, a worker of each, and that of steps in the background
}

TEST_CASE("lifetime: engines return what they took") {
    load_and_unload(10);
}

TEST_CASE("lifetime: 100 engines return what they took" * doctest::test_suite("slow")) {
    load_and_unload(100);
}

TEST_CASE("lifetime: 1,000 sessions return what they took") {
    const client::Engine engine = tiny(R"("threads": 2)");
    const auto cycle = [&](int n) {
        for (int i = 0; i < n; ++i) {
            const client::Session session = client::open(engine.get());
            client::append(session.get(), {1, i % 256, 3});
            client::step(session.get());
        }
    };
    cycle(50);
    const Footprint before = footprint();
    cycle(1000);
    check_returned(before, footprint());
}
