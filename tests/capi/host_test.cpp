// What the program gives an engine: a log and memory; and programs of the first release.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "capi/client.h"
#include "capi/goldens.h"
#include "check.h"

namespace {

using kimi::test::contains;

struct Recorder {
    std::vector<std::pair<int32_t, std::string>> lines;

    static void log(void *user, int32_t level, const char *text) {
        static_cast<Recorder *>(user)->lines.emplace_back(level, text);
    }
    bool has(int32_t level, const std::string &part) const {
        for (const auto &[l, text] : lines)
            if (l == level && contains(text, part)) return true;
        return false;
    }
};

// Memory that knows what it gave.
struct Heap {
    std::mutex mutex;
    std::map<void *, std::size_t> blocks;
    std::size_t n_allocated = 0, fail_at = SIZE_MAX;

    static void *allocate(void *user, std::size_t bytes, std::size_t alignment) {
        Heap &heap = *static_cast<Heap *>(user);
        const std::lock_guard lock(heap.mutex);
        if (heap.n_allocated++ == heap.fail_at) return nullptr;
        CHECK((alignment & (alignment - 1)) == 0);
        void *memory = std::aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
        std::memset(memory, 0xAB, bytes);
        heap.blocks[memory] = bytes;
        return memory;
    }
    static void release(void *user, void *memory, std::size_t bytes) {
        Heap &heap = *static_cast<Heap *>(user);
        const std::lock_guard lock(heap.mutex);
        CHECK(heap.blocks[memory] == bytes);
        heap.blocks.erase(memory);
        std::free(memory);
    }
    std::size_t bytes() const {
        std::size_t sum = 0;
        for (const auto &[memory, size] : blocks) sum += size;
        return sum;
    }
};

kimi_engine_options options_of(const std::string &deployment) {
    kimi_engine_options options;
    kimi_engine_options_init(&options);
    options.deployment = deployment.c_str();
    return options;
}

std::string small(const kimi::test::TempDir &dir, const std::string &fields) {
    return dir.write("d.json", "{\"checkpoint\": \"" KIMI_MODELS
                               "/nano-k2\", \"context_limit\": 512" +
                                   fields + "}");
}

}  // namespace

TEST_CASE("log: loading tells what was loaded, and steps tell nothing") {
    Recorder recorder;
    const std::string deployment = client::nano();
    kimi_engine_options options = options_of(deployment);
    options.log = Recorder::log;
    options.log_user = &recorder;
    kimi_engine *raw = nullptr;
    REQUIRE(kimi_engine_create(&options, &raw, nullptr) == KIMI_OK);
    client::Engine engine(raw);
    for (const char *part :
         {"model ", "4096 tokens", "cpu: 1 ranks", "drafter ", "KV cache: ", "memory: "})
        CHECK(recorder.has(KIMI_LOG_INFO, part));
    const std::size_t n = recorder.lines.size();
    const auto golden = kimi::test::golden_replies()[0];
    client::Session session = client::open(engine.get());
    client::append(session.get(), golden.prompt);
    CHECK(client::finish(session.get()).tokens == golden.tokens);
    session.reset();
    engine.reset();
    CHECK(recorder.lines.size() == n);
}

TEST_CASE("log: a KV cache below the context limit is a warning, and each engine has its own log") {
    const kimi::test::TempDir dir;
    const std::string deployment = small(dir, R"(, "kv": {"capacity_tokens": 128})");
    Recorder one, two;
    for (Recorder *recorder : {&one, &two}) {
        kimi_engine_options options = options_of(deployment);
        options.log = Recorder::log;
        options.log_user = recorder;
        kimi_engine *engine = nullptr;
        REQUIRE(kimi_engine_create(&options, &engine, nullptr) == KIMI_OK);
        kimi_engine_destroy(engine);
    }
    CHECK(one.has(KIMI_LOG_WARNING, "the KV cache holds 128 tokens"));
    CHECK(one.has(KIMI_LOG_INFO, "no drafter"));
    CHECK(one.lines == two.lines);
}

TEST_CASE("memory: the program's allocator provides it and gets it back") {
    Heap heap;
    const std::string deployment = client::nano();
    kimi_engine_options options = options_of(deployment);
    options.allocate = Heap::allocate;
    options.release = Heap::release;
    options.allocator_user = &heap;
    kimi_engine *raw = nullptr;
    REQUIRE(kimi_engine_create(&options, &raw, nullptr) == KIMI_OK);
    client::Engine engine(raw);
    kimi_engine_statistics stats;
    kimi_engine_statistics_init(&stats);
    REQUIRE(kimi_engine_stats(engine.get(), &stats, nullptr) == KIMI_OK);
    CHECK(stats.memory_bytes == heap.bytes());
    CHECK(heap.bytes() > stats.pages * stats.page_bytes);
    const std::size_t n = heap.n_allocated;
    const auto golden = kimi::test::golden_replies()[0];
    client::Session session = client::open(engine.get());
    client::append(session.get(), golden.prompt);
    CHECK(client::finish(session.get()).tokens == golden.tokens);
    CHECK(heap.n_allocated == n);  // all of it while loading
    engine.reset();
    CHECK(!heap.blocks.empty());
    session.reset();
    CHECK(heap.blocks.empty());
}

TEST_CASE("memory: an allocator that refuses is a status, at every one of its calls") {
    const kimi::test::TempDir dir;
    const std::string deployment =
        small(dir, ", \"drafter\": \"" KIMI_MODELS "/nano-k2/drafter\", \"ranks\": 2");
    for (std::size_t fail_at = 0;; fail_at += kimi::test::kInstrumented ? 7 : 1) {
        Heap heap;
        heap.fail_at = fail_at;
        kimi_engine_options options = options_of(deployment);
        options.allocate = Heap::allocate;
        options.release = Heap::release;
        options.allocator_user = &heap;
        kimi_engine *engine = nullptr;
        client::ErrorRecord error;
        const kimi_status status = kimi_engine_create(&options, &engine, &error);
        kimi_engine_destroy(engine);
        CHECK(heap.blocks.empty());
        if (status == KIMI_OK) {
            CHECK(fail_at > 10);
            break;
        }
        CHECK(status == KIMI_OUT_OF_MEMORY);
        CHECK(contains(error.message, "bytes of memory for"));
    }
    kimi_engine_options options = options_of(deployment);
    options.release = Heap::release;
    kimi_engine *engine = nullptr;
    client::ErrorRecord error;
    CHECK(kimi_engine_create(&options, &engine, &error) == KIMI_INVALID_ARGUMENT);
    CHECK(contains(error.message, "options.allocate is NULL"));
}

TEST_CASE("growth: a program of the first release works, and its structs end where they ended") {
    // The sizes of 0.1.0 on 64-bit machines.
    constexpr std::size_t kEngineOptions = 32, kSessionOptions = 48, kStep = 80,
                          kSessionStatistics = 1088, kEngineStatistics = 144, kEstimate = 64;
    const auto intact = [](const void *begin, std::size_t size, std::size_t known) {
        const auto *bytes = static_cast<const unsigned char *>(begin);
        return std::all_of(bytes + known, bytes + size, [](unsigned char b) { return b == 0xEE; });
    };
    union {
        char bytes[4096];
        kimi_engine_options engine_options;
        kimi_session_options session_options;
        kimi_step step;
        kimi_session_statistics session_statistics;
        kimi_engine_statistics engine_statistics;
        kimi_estimate estimate;
    } s;
    const auto fresh = [&] { std::memset(s.bytes, 0xEE, sizeof s.bytes); };

    const std::string deployment = client::nano();
    fresh();
    kimi_engine_options_init_sized(&s.engine_options, kEngineOptions);
    s.engine_options.deployment = deployment.c_str();
    kimi_engine *engine = nullptr;
    REQUIRE(kimi_engine_create(&s.engine_options, &engine, nullptr) == KIMI_OK);
    const client::Engine held_engine(engine);
    fresh();
    kimi_session_options_init_sized(&s.session_options, kSessionOptions);
    CHECK(intact(&s, sizeof s, kSessionOptions));
    kimi_session *session = nullptr;
    REQUIRE(kimi_session_create(engine, &s.session_options, &session, nullptr) == KIMI_OK);
    const client::Session held_session(session);
    client::append(session, {300});
    fresh();
    kimi_step_init_sized(&s.step, kStep);
    REQUIRE(kimi_decode_step(session, &s.step, nullptr) == KIMI_OK);
    CHECK(s.step.n_tokens == 1);
    CHECK(s.step.struct_size == kStep);
    CHECK(intact(&s, sizeof s, kStep));
    fresh();
    kimi_session_statistics_init_sized(&s.session_statistics, kSessionStatistics);
    REQUIRE(kimi_session_stats(session, &s.session_statistics, nullptr) == KIMI_OK);
    CHECK(intact(&s, sizeof s, kSessionStatistics));
    fresh();
    kimi_engine_statistics_init_sized(&s.engine_statistics, kEngineStatistics);
    REQUIRE(kimi_engine_stats(engine, &s.engine_statistics, nullptr) == KIMI_OK);
    CHECK(s.engine_statistics.passes == 1);
    CHECK(intact(&s, sizeof s, kEngineStatistics));
    fresh();
    kimi_estimate_init_sized(&s.estimate, kEstimate);
    REQUIRE(kimi_deployment_estimate(deployment.c_str(), &s.estimate, nullptr) == KIMI_OK);
    CHECK(s.estimate.devices == 1);
    CHECK(intact(&s, sizeof s, kEstimate));
}
