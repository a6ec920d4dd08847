// Random work on two engines for a long time, with faults: one call in a hundred meets a request to
// the system that fails. Through all of it a canary's reply stays the same, and nothing grows.
// Usage: soak SECONDS [SEED]
#include <kimi/kimi.h>
#include <stdlib.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fault/inject.h"
#include "tiny_model.h"

using namespace kimi;
using test::Fault;
using test::Resource;

namespace {

[[noreturn]] void give_up(const std::string &what) {
    std::fprintf(stderr, "soak: %s\n", what.c_str());
    exit(1);
}

class Soak {
  public:
    explicit Soak(std::uint64_t seed) : random_(seed) {
        folder_ = "/tmp/kimi-soak-XXXXXX";
        if (mkdtemp(folder_.data()) == nullptr) give_up("no folder");
        trace_ = folder_ + "/trace";
        test::write_tiny_model(folder_);
        for (std::size_t i = 0; i < 2; ++i) {
            deployments_[i] = cat(folder_, "/", i, ".json");
            synth::write_text(deployments_[i],
                              cat(R"({"checkpoint": ".", "drafter": "drafter", "context_limit": 300,
                                  "kv": {"capacity_tokens": 1500}, "threads": 2, "ranks": )",
                                  i + 1, "}"));
            load(i);
        }
    }
    ~Soak() {
        for (kimi_session *&session : sessions_) kimi_session_destroy(session);
        for (kimi_engine *engine : engines_) kimi_engine_destroy(engine);
        std::filesystem::remove_all(folder_);
    }

    void run(double seconds) {
        using Clock = std::chrono::steady_clock;
        const auto begin = Clock::now();
        const auto elapsed = [&] {
            return std::chrono::duration<double>(Clock::now() - begin).count();
        };
        for (double next_report = 10; elapsed() < seconds;) {
            for (int i = 0; i < 200; ++i) work();
            for (kimi_engine *engine : engines_) check_canary(engine);
            if (elapsed() < next_report) continue;
            report(elapsed());
            next_report = std::max(next_report * 1.5, elapsed());
        }
        report(elapsed());
    }

  private:
    std::uint64_t any(std::uint64_t n) { return random_() % n; }

    // A call. One in six may meet a fault, and does so where it makes as many requests. Statuses of
    // a fault or of full memory are as good as success.
    template <typename F>
    kimi_status call(F &&f) {
        ++n_calls_;
        kimi_error error;
        kimi_error_init(&error);
        if (any(6) != 0) return checked(f(&error), false, error);
        const auto resource = static_cast<Resource>(any(3));
        Fault fault(resource, 1 + any(any(2) == 0 ? 4 : 1000), any(2) == 0);
        const kimi_status status = f(&error);
        const bool failed = fault.end();
        n_faults_ += failed;
        return checked(status, failed, error);
    }

    kimi_status checked(kimi_status status, bool failed, const kimi_error &error) {
        const bool fine = status == KIMI_OK || status == KIMI_BUSY || status == KIMI_TOO_LONG;
        if (!fine && !(failed && (status == KIMI_OUT_OF_MEMORY || status == KIMI_IO)))
            give_up(cat("status ", status, ": ", error.message));
        ++statuses_[status];
        return status;
    }

    void load(std::size_t i) {
        kimi_engine_options options;
        kimi_engine_options_init(&options);
        options.deployment = deployments_[i].c_str();
        kimi_engine *engine = nullptr;
        while (call([&](auto *e) { return kimi_engine_create(&options, &engine, e); }) != KIMI_OK) {
        }
        kimi_engine_destroy(std::exchange(engines_[i], engine));
    }

    void replace(kimi_session *&old, kimi_session *session) {
        if (session != nullptr) kimi_session_destroy(std::exchange(old, session));
    }

    void work() {
        kimi_session *&session = sessions_[any(sessions_.size())];
        kimi_engine *const engine = engines_[any(engines_.size())];
        kimi_session *made = nullptr;
        if (session == nullptr || any(40) == 0) {
            call([&](auto *e) { return kimi_session_create(engine, nullptr, &made, e); });
            return replace(session, made);
        }
        switch (any(20)) {
            case 0:
                if (any(100) == 0) load(any(2));
                return;
            case 1:
                call([&](auto *e) { return kimi_session_fork(session, nullptr, &made, e); });
                return replace(sessions_[any(sessions_.size())], made);
            case 2:
                return save(session, engine);
            case 3:
                call([&](auto *e) {
                    return kimi_session_truncate(session, kimi_session_length(session) / 2, e);
                });
                return;
            case 4:
                return kimi_session_cancel(session);
            case 5: {
                static const std::string schema =
                    R"({"type": "array", "items": {"type": "integer"}})";
                const std::uint32_t kind =
                    any(2) == 0 ? KIMI_CONSTRAINT_NONE : KIMI_CONSTRAINT_JSON_SCHEMA;
                call([&](auto *e) {
                    return kimi_session_set_constraint(session, kind, schema.data(), schema.size(),
                                                       e);
                });
                return;
            }
            case 6:
                if (any(10) != 0) return;
                call([&](auto *e) { return kimi_engine_save_trace(engine, trace_.c_str(), e); });
                return;
            case 7:
            case 8: {
                const std::vector<std::int32_t> tokens(1 + any(40),
                                                       static_cast<std::int32_t>(any(256)));
                call([&](auto *e) {
                    return kimi_session_append(session, tokens.data(), tokens.size(), e);
                });
                return;
            }
            default: {
                kimi_step step;
                kimi_step_init(&step);
                call([&](auto *e) { return kimi_decode_step(session, &step, e); });
            }
        }
    }

    void save(kimi_session *session, kimi_engine *engine) {
        const std::string path = folder_ + "/session";
        if (call([&](auto *e) { return kimi_session_save(session, path.c_str(), e); }) != KIMI_OK)
            return;
        kimi_session *made = nullptr;
        call([&](auto *e) { return kimi_session_restore(engine, path.c_str(), 0, &made, e); });
        replace(sessions_[any(sessions_.size())], made);
    }

    // The reply to a fixed prompt, on an engine whose memory others may have filled.
    void check_canary(kimi_engine *engine) {
        kimi_session *session = nullptr;
        kimi_session_options options;
        kimi_session_options_init(&options);
        options.temperature = 0;
        options.flags = KIMI_IGNORE_STOP;
        options.max_tokens = 20;
        const std::vector<std::int32_t> prompt(70, 42);
        if (kimi_session_create(engine, &options, &session, nullptr) != KIMI_OK ||
            kimi_session_append(session, prompt.data(), prompt.size(), nullptr) != KIMI_OK)
            give_up("the canary does not begin");
        std::vector<std::int32_t> reply;
        kimi_step step;
        kimi_step_init(&step);
        do {
            const kimi_status status = kimi_decode_step(session, &step, nullptr);
            if (status == KIMI_BUSY) {
                kimi_session_destroy(session);
                replace_all();
                return;
            }
            if (status != KIMI_OK) give_up(cat("the canary's step gives ", status));
            reply.insert(reply.end(), step.tokens, step.tokens + step.n_tokens);
        } while (step.finish_reason == KIMI_FINISH_NONE);
        kimi_session_destroy(session);
        if (canary_.empty()) canary_ = reply;
        if (reply != canary_) give_up("the canary's reply changed");
        ++n_canaries_;
    }
    // Makes room.
    void replace_all() {
        for (kimi_session *&session : sessions_)
            kimi_session_destroy(std::exchange(session, nullptr));
    }

    void report(double seconds) {
        std::string text = cat(static_cast<std::uint64_t>(seconds), " s: ", n_calls_, " calls, ",
                               n_faults_, " faults met, ", n_canaries_, " canaries alike;");
        for (const auto &[status, n] : statuses_) text += cat(" status ", status, ": ", n, ';');
        std::size_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages >> pages;
        const test::Holdings held = test::holdings();
        text += cat(' ', pages / 256, " MiB resident, ", held.blocks, " blocks, ", held.descriptors,
                    " descriptors, ", held.threads, " threads");
        std::puts(text.c_str());
        std::fflush(stdout);
    }

    std::mt19937_64 random_;
    std::string folder_, trace_;
    std::array<std::string, 2> deployments_;
    std::array<kimi_engine *, 2> engines_{};
    std::array<kimi_session *, 6> sessions_{};
    std::vector<std::int32_t> canary_;
    std::map<kimi_status, std::uint64_t> statuses_;
    std::uint64_t n_calls_ = 0, n_faults_ = 0, n_canaries_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? atof(argv[1]) : 3600;
    const std::uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : std::random_device()();
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    Soak(seed).run(seconds);
}
