// What the tests with failing requests begin with: a model, a session in the middle of a reply, and
// that nothing is left behind.
#pragma once

#include <string>
#include <vector>

#include "capi/client.h"
#include "check.h"
#include "fault/each.h"
#include "fault/inject.h"
#include "tiny_model.h"

namespace kimi::test {

// A folder with a tiny model.
struct Model {
    TempDir dir;

    Model() { write_tiny_model(dir.path()); }
    std::string deployment(const std::string &fields) const {
        return dir.write("deployment.json", R"({"checkpoint": ".", "drafter": "drafter",
            "context_limit": 384, "kv": {"capacity_tokens": 1024}, )" +
                                                fields + "}");
    }
};

inline constexpr const char *kOneRank = R"("threads": 2)";
inline constexpr const char *kTwoRanks =
    R"("ranks": 2, "threads": 4, "placement": {"attention": "context"})";

// Nothing is left behind that was not there before.
class Balance {
  public:
    ~Balance() {
        const Holdings after = holdings();
        CHECK(after.blocks == before_.blocks);
        CHECK(after.mappings == before_.mappings);
        CHECK(after.descriptors == before_.descriptors);
        CHECK(after.threads == before_.threads);
    }

  private:
    Holdings before_ = holdings();
};

inline std::vector<int32_t> prompt(std::size_t n) {
    std::vector<int32_t> tokens;
    for (std::size_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(i * 37 % 256));
    return tokens;
}

inline std::string save(kimi_session *session) {
    std::size_t size = 0;
    REQUIRE(kimi_session_save_buffer(session, nullptr, 0, &size, nullptr) == KIMI_TOO_LONG);
    std::string bytes(size, '\0');
    REQUIRE(kimi_session_save_buffer(session, bytes.data(), size, &size, nullptr) == KIMI_OK);
    return bytes;
}

// What a session is: its saved header, rules and first tokens.
inline std::string identity(kimi_session *session) {
    return save(session).substr(0, 256 + kimi_session_length(session) * sizeof(int32_t));
}

// The tokens of the next steps.
inline std::vector<int32_t> next_tokens(kimi_session *session, int n_steps = 4) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < n_steps; ++i) {
        const kimi_step step = client::step(session);
        tokens.insert(tokens.end(), step.tokens, step.tokens + step.n_tokens);
    }
    return tokens;
}

// A session in the middle of a reply, made anew for every call.
struct Subject {
    client::Engine engine;
    std::string saved, before;
    client::Session session, other;
    std::vector<int32_t> expected;

    explicit Subject(const Model &model, const char *fields)
        : engine(client::load(model.deployment(fields))) {
        session = client::open(engine.get(), client::endless());
        client::append(session.get(), prompt(70));
        next_tokens(session.get());
        saved = save(session.get());
    }
    void renew() {
        session = restored();
        before = identity(session.get());
    }
    client::Session restored() const {
        kimi_session *copy = nullptr;
        REQUIRE(kimi_session_restore_buffer(engine.get(), saved.data(), saved.size(), 0, &copy,
                                            nullptr) == KIMI_OK);
        return client::Session(copy);
    }
    void check_unchanged() const { CHECK(identity(session.get()) == before); }
    // The session continues like the first that came here.
    void check_continues() {
        const std::vector<int32_t> got = next_tokens(session.get());
        if (expected.empty()) expected = got;
        CHECK(got == expected);
    }
    // A case of a call on the session.
    Case on_session(const char *name,
                    std::function<kimi_status(kimi_session *, kimi_error *)> call) {
        expected.clear();
        return {name, [this] { renew(); }, [this, call](auto *e) { return call(session.get(), e); },
                [this] { check_unchanged(); }, [this] { check_continues(); }};
    }
    // A case of a call that makes a session like the subject's.
    Case of_session(const char *name,
                    std::function<kimi_status(kimi_session **, kimi_error *)> call) {
        expected.clear();
        return {name, [this] { renew(); },
                [this, call](auto *e) {
                    kimi_session *out = reinterpret_cast<kimi_session *>(1);
                    const kimi_status status = call(&out, e);
                    other.reset(out);
                    return status;
                },
                [this] {
                    CHECK(other == nullptr);
                    check_unchanged();
                },
                [this] {
                    session = std::move(other);
                    check_continues();
                }};
    }
};

}  // namespace kimi::test
