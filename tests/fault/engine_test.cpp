// Engines and estimates, with every request to the system failing in turn.
#include <filesystem>
#include <new>

#include "fault/subject.h"

using namespace kimi::test;

namespace {

void fail_engines(Thorough thorough) {
    const Model model;
    client::load(model.deployment(kTwoRanks));  // what is made once and kept
    const Balance balance;
    for (const char *fields : {kOneRank, kTwoRanks}) {
        const std::string deployment = model.deployment(fields);
        kimi_engine_options options;
        kimi_engine_options_init(&options);
        options.deployment = deployment.c_str();
        kimi_engine *engine = nullptr;
        const Case create = {
            "kimi_engine_create", [&] { engine = reinterpret_cast<kimi_engine *>(1); },
            [&](auto *e) { return kimi_engine_create(&options, &engine, e); },
            [&] { CHECK(engine == nullptr); }, [&] { kimi_engine_destroy(engine); }};
        fail_each(create, thorough);
        fail_each({"kimi_engine_destroy", [&] { REQUIRE(create.call(nullptr) == KIMI_OK); },
                   [&](auto *) { return kimi_engine_destroy(engine), KIMI_OK; }});
    }
}

}  // namespace

TEST_CASE("fault: engines, every request" * doctest::test_suite("slow")) {
    fail_engines(Thorough::yes);
}

TEST_CASE("fault: engines") {
    fail_engines(Thorough::no);
}

TEST_CASE("fault: engines in memory of the program") {
    const Model model;
    const std::string deployment = model.deployment(kTwoRanks);
    client::load(deployment);  // what is made once and kept
    const Balance balance;
    kimi_engine_options options;
    kimi_engine_options_init(&options);
    options.deployment = deployment.c_str();
    options.allocate = [](void *, std::size_t bytes, std::size_t alignment) -> void * {
        try {
            return operator new (bytes, std::align_val_t{alignment});
        } catch (const std::bad_alloc &) {
            return nullptr;
        }
    };
    options.release = [](void *, void *memory, std::size_t) {
        operator delete (memory, std::align_val_t{4096});
    };
    kimi_engine *engine = nullptr;
    fail_each({"kimi_engine_create", [&] { engine = reinterpret_cast<kimi_engine *>(1); },
               [&](auto *e) { return kimi_engine_create(&options, &engine, e); },
               [&] { CHECK(engine == nullptr); }, [&] { kimi_engine_destroy(engine); }});
}

TEST_CASE("fault: estimates") {
    const Model model;
    const std::string deployment = model.deployment(kTwoRanks);
    const Balance balance;
    kimi_estimate estimate;
    fail_each({"kimi_deployment_estimate", [&] { kimi_estimate_init(&estimate); },
               [&](auto *e) { return kimi_deployment_estimate(deployment.c_str(), &estimate, e); },
               [&] { CHECK(estimate.devices == 0); }, [&] { CHECK(estimate.devices == 2); }});
}

TEST_CASE("fault: an engine at work") {
    const Model model;
    const Balance balance;
    for (const char *fields : {kOneRank, kTwoRanks}) {
        Subject s(model, fields);
        kimi_engine *const engine = s.engine.get();
        kimi_engine_statistics stats;
        fail_each(s.on_session("kimi_engine_stats", [&](auto *, auto *e) {
            kimi_engine_statistics_init(&stats);
            return kimi_engine_stats(engine, &stats, e);
        }));
        fail_each(s.on_session("kimi_engine_defragment",
                               [&](auto *, auto *e) { return kimi_engine_defragment(engine, e); }));
    }
    const client::Engine fresh = client::load(model.deployment(kTwoRanks));
    const client::Session session = client::open(fresh.get(), client::endless());
    client::append(session.get(), prompt(70));
    next_tokens(session.get());
    const std::string file = model.dir.file("trace");
    fail_each({"kimi_engine_save_trace", [] {},
               [&](auto *e) { return kimi_engine_save_trace(fresh.get(), file.c_str(), e); },
               [&] { CHECK(!std::filesystem::exists(file)); },
               [&] { CHECK(std::filesystem::remove(file)); }});
}
