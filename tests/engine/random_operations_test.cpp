// Sessions of one engine under random operations, next to a naive model: lists of tokens. A reply
// is right if a fresh session of a plain engine (no drafter, nothing cached, enough memory) gives
// it.
#include <random>

#include "engine/engine.h"
#include "engine/session_file.h"
#include "model/tiny.h"

using namespace kimi;

namespace {

constexpr std::size_t kMaxSessions = 12;

struct Reply {
    std::size_t begin = 0, end = 0;  // among the tokens
};

struct Model {
    std::vector<std::int32_t> tokens;
    std::vector<Reply> replies;

    void truncate(std::size_t n) {
        tokens.resize(n);
        while (!replies.empty() && replies.back().begin >= n) replies.pop_back();
        if (!replies.empty()) replies.back().end = std::min(replies.back().end, n);
    }
};

struct Saved {
    std::vector<std::byte> bytes;
    Model model;
};

class Operations {
  public:
    Operations(const std::string &deployment, const std::string &plain, std::uint64_t seed)
        : engine_(load(deployment)), plain_(load(plain)), random_(seed) {}

    void run(int n) {
        for (int i = 0; i < n; ++i) {
            CAPTURE(i);
            one();
            engine_->kv()->check();
            for (const Live &live : sessions_) REQUIRE(same(live));
        }
        while (!sessions_.empty()) destroy(0);
        const KvStats stats = engine_->kv()->stats();
        CHECK(stats.n_used == 0);
        CHECK(stats.n_free + stats.n_cached == stats.n_pages);
        MESSAGE(n, " operations: ", n_verified_, " replies verified, ", n_busy_, " times busy, ",
                stats.hits, " prefix hits, ", stats.evicted, " pages evicted, ", stats.pages_moved,
                " moved, ", n_accepted_, " drafted tokens accepted");
        for (const std::uint64_t happened :
             {n_verified_, n_busy_, stats.hits, stats.evicted, stats.pages_moved, n_accepted_})
            CHECK(happened > 0);
    }

  private:
    struct Live {
        std::unique_ptr<Session> session;
        Model model;
    };

    static std::shared_ptr<Engine> load(const std::string &path) {
        return std::make_shared<Engine>(path, [](std::uint64_t, std::uint64_t) {});
    }
    std::size_t below(std::size_t n) { return random_() % n; }
    Live &any() { return sessions_[below(sessions_.size())]; }
    static bool same(const Live &live) {
        const auto tokens = std::as_const(*live.session).tokens();
        return std::equal(tokens.begin(), tokens.end(), live.model.tokens.begin(),
                          live.model.tokens.end());
    }
    // False where the engine had no room.
    template <typename F>
    bool unless_busy(F &&f) {
        try {
            f();
            return true;
        } catch (const Error &error) {
            REQUIRE(error.status == KIMI_BUSY);
            ++n_busy_;
            return false;
        }
    }

    void one() {
        const std::size_t kind = below(100);
        if (sessions_.empty() || (kind < 6 && sessions_.size() < kMaxSessions)) return create();
        if (kind < 16) return append(any());
        if (kind < 20) return truncate(any());
        if (kind < 25) return fork(any());
        if (kind < 28) return save(any());
        if (kind < 31) return restore();
        if (kind < 36) return destroy(below(sessions_.size()));
        if (kind < 38) return engine_->kv()->defragment(below(2) * 1e-5), void();
        step();
    }

    void create() {
        SessionOptions options;
        options.sampling.temperature = below(2) == 0 ? 0.0f : 1.0f;
        options.sampling.seed = random_();
        const std::uint32_t budgets[] = {0, 1, 7, 16, 63, KIMI_AUTO};
        options.draft_budget = budgets[below(std::size(budgets))];
        options.draft_chain = below(2) == 0;
        options.ignore_stop = true;
        sessions_.push_back({std::make_unique<Session>(engine_, options), {}});
    }

    // Prompts begin alike, so that prefixes are found.
    void append(Live &live) {
        const std::size_t most = engine_->context_limit() - live.model.tokens.size();
        const std::size_t n = std::min(1 + below(150), most - std::min<std::size_t>(most, 1));
        if (n == 0) return;
        std::vector<std::int32_t> prompt;
        const std::size_t base = below(2);
        const bool first = live.model.tokens.empty();
        for (std::size_t i = 0; i < n; ++i)
            prompt.push_back(static_cast<std::int32_t>(first ? (7 * i + base) % 200 : below(200)));
        live.session->append(prompt);
        live.model.tokens.insert(live.model.tokens.end(), prompt.begin(), prompt.end());
        live.model.replies.push_back({live.model.tokens.size(), live.model.tokens.size()});
    }

    void truncate(Live &live) {
        const std::size_t n = below(live.model.tokens.size() + 1);
        live.session->truncate(n);
        live.model.truncate(n);
    }

    void fork(Live &live) {
        if (sessions_.size() == kMaxSessions) return;
        Live copy{nullptr, live.model};
        if (unless_busy([&] { copy.session = live.session->fork(); }))
            sessions_.push_back(std::move(copy));
    }

    void save(Live &live) {
        Saved saved{{}, live.model};
        save_session(*live.session, [&](const void *data, std::size_t n) {
            const auto *bytes = static_cast<const std::byte *>(data);
            saved.bytes.insert(saved.bytes.end(), bytes, bytes + n);
        });
        if (saved_.size() < 8) return saved_.push_back(std::move(saved));
        saved_[below(8)] = std::move(saved);
    }

    void restore() {
        if (saved_.empty() || sessions_.size() == kMaxSessions) return;
        const Saved &saved = saved_[below(saved_.size())];
        Live live{nullptr, saved.model};
        if (unless_busy(
                [&] { live.session = restore_session(engine_, saved.bytes, below(2) == 0); }))
            sessions_.push_back(std::move(live));
    }

    void destroy(std::size_t i) {
        verify(sessions_[i]);
        sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(i));
    }

    void step() {
        std::vector<Session *> batch;
        std::vector<Live *> lives;
        const std::size_t first = below(sessions_.size()), n = 1 + below(3);
        for (std::size_t i = first; i < std::min(first + n, sessions_.size()); ++i) {
            lives.push_back(&sessions_[i]);
            batch.push_back(sessions_[i].session.get());
        }
        engine_->step(batch);
        for (Live *live : lives) {
            const StepResult &result = live->session->result();
            const auto committed = live->session->committed();
            live->model.tokens.insert(live->model.tokens.end(), committed.begin(), committed.end());
            if (!committed.empty()) live->model.replies.back().end = live->model.tokens.size();
            n_accepted_ += result.draft_accepted;
            if (result.status == KIMI_OK) continue;
            CAPTURE(result.error);
            REQUIRE(result.status == KIMI_BUSY);
            ++n_busy_;
        }
    }

    void verify(const Live &live) {
        for (const Reply &reply : live.model.replies) {
            if (reply.begin == reply.end) continue;
            SessionOptions options = live.session->options();
            options.draft_budget = 0;
            options.max_tokens = static_cast<std::uint32_t>(reply.end - reply.begin);
            Session fresh(plain_, options);
            fresh.append(std::span(live.model.tokens).first(reply.begin));
            Session *session = &fresh;
            while (fresh.result().phase != KIMI_PHASE_FINISHED) {
                plain_->step({&session, 1});
                REQUIRE(fresh.result().status == KIMI_OK);
            }
            const auto expected = std::as_const(fresh).tokens();
            REQUIRE(std::equal(expected.begin(), expected.end(), live.model.tokens.begin(),
                               live.model.tokens.begin() + static_cast<std::ptrdiff_t>(reply.end)));
            ++n_verified_;
        }
    }

    std::shared_ptr<Engine> engine_, plain_;
    std::mt19937_64 random_;
    std::vector<Live> sessions_;
    std::vector<Saved> saved_;
    std::uint64_t n_verified_ = 0, n_busy_ = 0, n_accepted_ = 0;
};

std::string fields(const std::string &checkpoint, const std::string &rest) {
    return "{\"checkpoint\": \"" + checkpoint + "\", \"context_limit\": 500" + rest + "}";
}

}  // namespace

TEST_CASE("random operations: every reply is that of a fresh session, and the pages add up") {
    const test::TempDir dir;
    test::write_tiny_model(dir.path());
    const std::string small =
        dir.write("small.json", fields(dir.path(),
                                       ", \"drafter\": \"drafter\", \"prefill_chunk\": 48, "
                                       "\"kv\": {\"capacity_tokens\": 2000}, \"threads\": 1, "
                                       "\"speculation\": {\"sessions\": 8}"));
    const std::string plain = dir.write(
        "plain.json", fields(dir.path(), ", \"kv\": {\"capacity_tokens\": 1000}, \"threads\": 1"));
    Operations(small, plain, 1).run(test::kInstrumented ? 3000 : 10000);
}

TEST_CASE("random operations: with a trained drafter, whose tokens are accepted" *
          doctest::test_suite("slow")) {
    const test::TempDir dir;
    const std::string drafter = ", \"drafter\": \"" + test::nano() + "/drafter\"";
    const std::string small = dir.write(
        "small.json", fields(test::nano(), drafter + ", \"kv\": {\"capacity_tokens\": 2000}"));
    const std::string plain = dir.write("plain.json", fields(test::nano(), ""));
    Operations(small, plain, 2).run(1000);
}
