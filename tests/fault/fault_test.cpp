// Every function of the library, with every request to the system failing in turn: once, and from
// then on. Each gives the right status, leaves nothing behind, and works when it is called again.
#include <cstring>
#include <functional>
#include <thread>

#include "capi/client.h"
#include "check.h"
#include "fault/inject.h"
#include "tiny_model.h"

using namespace kimi::test;

namespace {

// A call and what must be true of it.
struct Case {
    std::string name;
    std::function<void()> prepare;  // before every call
    std::function<kimi_status(kimi_error *)> call;
    std::function<void()> unchanged = [] {};  // after a failed call
    std::function<void()> done = [] {};       // after one that succeeded
};

void check_status(Resource resource, kimi_status status, const kimi_error &error) {
    CAPTURE(status);
    CAPTURE(error.message);
    switch (resource) {
        case Resource::memory:
        case Resource::thread:
            CHECK(status == KIMI_OUT_OF_MEMORY);
            break;
        case Resource::file:
            CHECK(status == KIMI_IO);
            break;
    }
    CHECK(error.status == status);
    CHECK(std::strlen(error.message) > 0);
}

// Of many requests about every 50th fails, but every one in the suite "slow".
enum class Thorough { no, yes };

// Calls with the n-th request failing until there are fewer; returns how many there are.
std::uint64_t fail_each(const Case &c, Resource resource, bool on, Thorough thorough) {
    for (std::uint64_t n = 1;; n += thorough == Thorough::yes ? 1 : 1 + n / 50) {
        CAPTURE(n);
        c.prepare();
        client::ErrorRecord error;
        Fault fault(resource, n, on);
        const kimi_status status = c.call(&error);
        const bool failed = fault.end();
        if (status != KIMI_OK) {
            REQUIRE(failed);
            check_status(resource, status, error);
            c.unchanged();
            REQUIRE(c.call(&error) == KIMI_OK);
        }
        c.done();
        if (!failed) return n - 1;
    }
}

void fail_each(const Case &c, Thorough thorough = Thorough::no) {
    CAPTURE(c.name);
    for (const Resource resource : {Resource::memory, Resource::file, Resource::thread})
        for (const bool on : {false, true}) {
            CAPTURE(static_cast<int>(resource));
            CAPTURE(on);
            fail_each(c, resource, on, thorough);
        }
}

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

// In its folder: configuration, index, three shards, tokenizer, drafter; a deployment and a
// session.
constexpr int kFiles = 9;

constexpr const char *kOneRank = R"("threads": 2)";
constexpr const char *kTwoRanks =
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

std::vector<int32_t> prompt(std::size_t n) {
    std::vector<int32_t> tokens;
    for (std::size_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(i * 37 % 256));
    return tokens;
}

std::string save(kimi_session *session) {
    std::size_t size = 0;
    REQUIRE(kimi_session_save_buffer(session, nullptr, 0, &size, nullptr) == KIMI_TOO_LONG);
    std::string bytes(size, '\0');
    REQUIRE(kimi_session_save_buffer(session, bytes.data(), size, &size, nullptr) == KIMI_OK);
    return bytes;
}

// What a session is: its saved header, rules and first tokens.
std::string identity(kimi_session *session) {
    return save(session).substr(0, 256 + kimi_session_length(session) * sizeof(int32_t));
}

// The tokens of the next steps.
std::vector<int32_t> next_tokens(kimi_session *session, int n_steps = 4) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < n_steps; ++i) {
        const kimi_step step = client::step(session);
        tokens.insert(tokens.end(), step.tokens, step.tokens + step.n_tokens);
    }
    return tokens;
}

kimi_session_options endless() {
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    return options;
}

// A session in the middle of a reply, made anew for every call.
struct Subject {
    client::Engine engine;
    std::string saved, before;
    client::Session session, other;
    std::vector<int32_t> expected;

    explicit Subject(const Model &model, const char *fields)
        : engine(client::load(model.deployment(fields))) {
        session = client::open(engine.get(), endless());
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

TEST_CASE("fault: text") {
    const Model model;
    const Balance balance;
    const std::string folder = model.dir.path();
    kimi_tokenizer *tokenizer = nullptr;
    fail_each({"kimi_tokenizer_create", [&] { tokenizer = reinterpret_cast<kimi_tokenizer *>(1); },
               [&](auto *e) { return kimi_tokenizer_create(folder.c_str(), &tokenizer, e); },
               [&] { CHECK(tokenizer == nullptr); }, [&] { kimi_tokenizer_destroy(tokenizer); }});
    REQUIRE(kimi_tokenizer_create(folder.c_str(), &tokenizer, nullptr) == KIMI_OK);
    const client::Tokenizer owner(tokenizer);

    const std::string text = "Hello <|im_end|> world";
    std::vector<int32_t> tokens;
    size_t n = 0;
    fail_each({"kimi_tokenize", [&] { tokens.assign(100, -1); },
               [&](auto *e) {
                   return kimi_tokenize(tokenizer, text.data(), text.size(), KIMI_SPECIALS,
                                        tokens.data(), tokens.size(), &n, e);
               },
               [&] { CHECK(tokens == std::vector<int32_t>(100, -1)); },
               [&] { CHECK(n == text.size() - 9); }});
    tokens.resize(n);
    std::string back;
    fail_each({"kimi_detokenize", [&] { back.assign(100, '?'); },
               [&](auto *e) {
                   return kimi_detokenize(tokenizer, tokens.data(), tokens.size(), back.data(),
                                          back.size(), &n, e);
               },
               [&] { CHECK(back == std::string(100, '?')); },
               [&] { CHECK(back.substr(0, n) == text); }});
    const std::string chat =
        R"({"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function",
            "function": {"name": "f", "parameters": {"type": "object"}}}]})";
    std::string rendered(4000, '\0'), expected;
    fail_each({"kimi_chat_render", [] {},
               [&](auto *e) {
                   return kimi_chat_render(tokenizer, chat.data(), chat.size(), rendered.data(),
                                           rendered.size(), &n, e);
               },
               [] {},
               [&] {
                   if (expected.empty()) expected = rendered.substr(0, n);
                   CHECK(rendered.substr(0, n) == expected);
               }});
}

TEST_CASE("fault: sessions are made, saved and destroyed") {
    const Model model;
    const Balance balance;
    for (const char *fields : {kOneRank, kTwoRanks}) {
        Subject s(model, fields);
        kimi_engine *const engine = s.engine.get();
        const kimi_session_options options = endless();
        const std::vector<int32_t> start = prompt(70);
        Case create = s.of_session("kimi_session_create", [&](auto **out, auto *e) {
            return kimi_session_create(engine, &options, out, e);
        });
        create.done = [&] {
            s.session = std::move(s.other);
            client::append(s.session.get(), start);
            s.check_continues();
        };
        fail_each(create);
        fail_each(s.of_session("kimi_session_fork", [&](auto **out, auto *e) {
            return kimi_session_fork(s.session.get(), &options, out, e);
        }));
        fail_each(s.of_session("kimi_session_restore_buffer", [&](auto **out, auto *e) {
            return kimi_session_restore_buffer(engine, s.saved.data(), s.saved.size(), 0, out, e);
        }));
        const std::string file = model.dir.write("session", "old");
        fail_each(s.on_session("kimi_session_save", [&](auto *session, auto *e) {
            return kimi_session_save(session, file.c_str(), e);
        }));
        CHECK(kimi::read_file(file, 1 << 20) == s.saved);
        fail_each(s.of_session("kimi_session_restore", [&](auto **out, auto *e) {
            return kimi_session_restore(engine, file.c_str(), 0, out, e);
        }));
        std::string buffer(s.saved.size(), '\0');
        fail_each(s.on_session("kimi_session_save_buffer", [&](auto *session, auto *e) {
            std::size_t size = 0;
            return kimi_session_save_buffer(session, buffer.data(), buffer.size(), &size, e);
        }));
        fail_each({"kimi_session_destroy", [&] { s.renew(); },
                   [&](auto *) { return s.session.reset(), KIMI_OK; }});
        CHECK(std::distance(std::filesystem::directory_iterator(model.dir.path()), {}) == kFiles);
    }
}

TEST_CASE("fault: sessions go on") {
    const Model model;
    const Balance balance;
    for (const char *fields : {kOneRank, kTwoRanks}) {
        Subject s(model, fields);
        const std::vector<int32_t> more = prompt(10);
        fail_each(s.on_session("kimi_session_append", [&](auto *session, auto *e) {
            return kimi_session_append(session, more.data(), more.size(), e);
        }));
        const std::string chat =
            R"({"messages": [{"role": "user", "content": "hi there"}],
                "tools": [{"type": "function", "function": {"name": "f"}}]})";
        fail_each(s.on_session("kimi_session_append_chat", [&](auto *session, auto *e) {
            return kimi_session_append_chat(session, chat.data(), chat.size(), e);
        }));
        Case truncate = s.on_session("kimi_session_truncate", [&](auto *session, auto *e) {
            return kimi_session_truncate(session, 66, e);
        });
        truncate.done = [&] {
            client::append(s.session.get(), more);
            s.check_continues();
        };
        fail_each(truncate);
        const kimi_session_options options = endless();
        fail_each(s.on_session("kimi_session_set_options", [&](auto *session, auto *e) {
            return kimi_session_set_options(session, &options, e);
        }));
        kimi_session_statistics stats;
        fail_each(s.on_session("kimi_session_stats", [&](auto *session, auto *e) {
            kimi_session_statistics_init(&stats);
            return kimi_session_stats(session, &stats, e);
        }));
    }
}

TEST_CASE("fault: events") {
    const Model model;
    const Balance balance;
    Subject s(model, kOneRank);
    kimi_event event;
    std::string expected;
    std::uint32_t flags = KIMI_NO_STEP;
    Case take = s.on_session("kimi_session_next_event", [&](auto *session, auto *e) {
        kimi_event_init(&event);
        return kimi_session_next_event(session, flags, &event, e);
    });
    take.done = [&] {
        CHECK(event.kind == KIMI_EVENT_CONTENT);
        const std::string got(event.text, event.text_len);
        if (expected.empty()) expected = got;
        CHECK(got == expected);
        s.check_continues();
    };
    fail_each(take);

    // With steps: those that were run stay, their events come with the next call.
    flags = 0;
    expected.clear();
    s.expected.clear();
    take.prepare = [&] {
        s.renew();
        while (take.call(nullptr) == KIMI_OK && event.kind != KIMI_EVENT_NONE) flags = KIMI_NO_STEP;
        flags = 0;
    };
    take.unchanged = [] {};
    fail_each(take);
}

TEST_CASE("fault: steps in the background") {
    const Model model;
    const Balance balance;
    const auto collect = [](kimi_session *session, kimi_error *error) {
        int32_t ready = 0;
        kimi_status status = KIMI_OK;
        while (status == KIMI_OK && ready == 0) {
            kimi_step step;
            kimi_step_init(&step);
            status = kimi_session_poll(session, &step, &ready, error);
            std::this_thread::yield();
        }
        return status;
    };
    {
        // The first one of an engine starts a thread.
        client::Engine engine;
        client::Session session;
        fail_each({"kimi_session_submit",
                   [&] {
                       session.reset();
                       engine = client::load(model.deployment(kOneRank));
                       session = client::open(engine.get(), endless());
                       client::append(session.get(), prompt(10));
                   },
                   [&](auto *e) { return kimi_session_submit(session.get(), e); },
                   [&] { CHECK(kimi_session_length(session.get()) == 10); },
                   [&] {
                       CHECK(collect(session.get(), nullptr) == KIMI_OK);
                       CHECK(kimi_session_length(session.get()) == 11);
                   }});
    }
    Subject s(model, kTwoRanks);
    Case poll = s.on_session("kimi_session_poll", collect);
    poll.prepare = [&] {
        s.renew();
        REQUIRE(kimi_session_submit(s.session.get(), nullptr) == KIMI_OK);
    };
    fail_each(poll);
    fail_each(s.on_session("kimi_session_wake_fd", [](auto *session, auto *e) {
        int32_t fd = -1;
        const kimi_status status = kimi_session_wake_fd(session, &fd, e);
        CHECK((fd >= 0) == (status == KIMI_OK));
        return status;
    }));
}

TEST_CASE("fault: what a reply must keep") {
    const Model model;
    const Balance balance;
    Subject s(model, kOneRank);
    const std::vector<int32_t> more = prompt(10);
    int n = 0;
    std::string expression;
    Case constrain = s.on_session("kimi_session_set_constraint", [&](auto *session, auto *e) {
        return kimi_session_set_constraint(session, KIMI_CONSTRAINT_REGEX, expression.data(),
                                           expression.size(), e);
    });
    constrain.prepare = [&] {
        s.renew();
        expression = "a{9}b{" + std::to_string(++n) + "}";  // the engine has not seen it yet
    };
    constrain.done = [&] {
        client::append(s.session.get(), more);
        const std::vector<int32_t> reply = next_tokens(s.session.get(), 4);
        CHECK(reply == std::vector<int32_t>(reply.size(), 'a'));
    };
    fail_each(constrain);

    const std::vector<kimi_logit_bias> biases = {{'x', 100}, {'y', -100}};
    Case bias = s.on_session("kimi_session_set_logit_bias", [&](auto *session, auto *e) {
        return kimi_session_set_logit_bias(session, biases.data(), biases.size(), e);
    });
    bias.done = [&] {
        client::append(s.session.get(), more);
        const std::vector<int32_t> reply = next_tokens(s.session.get(), 4);
        CHECK(reply == std::vector<int32_t>(reply.size(), 'x'));
    };
    fail_each(bias);

    const char *const strings[] = {"xxxx", "a stop string that is longer than a small one"};
    Case stops = s.on_session("kimi_session_set_stop_strings", [&](auto *session, auto *e) {
        return kimi_session_set_stop_strings(session, strings, 2, e);
    });
    stops.done = [&] {
        REQUIRE(bias.call(nullptr) == KIMI_OK);
        client::append(s.session.get(), more);
        const client::Reply reply = client::finish(s.session.get());
        CHECK(reply.finish == KIMI_FINISH_STOP_STRING);
        CHECK(reply.text.empty());
    };
    fail_each(stops);

    Case append = s.on_session("kimi_session_append", [&](auto *session, auto *e) {
        return kimi_session_append(session, more.data(), more.size(), e);
    });
    append.prepare = [&] {
        s.renew();
        for (const Case *rule : {&constrain, &bias, &stops})
            REQUIRE(rule->call(nullptr) == KIMI_OK);
        s.before = identity(s.session.get());
    };
    fail_each(append);
    Case truncate = s.on_session("kimi_session_truncate", [&](auto *session, auto *e) {
        return kimi_session_truncate(session, 66, e);
    });
    truncate.prepare = [&] {
        append.prepare();
        client::append(s.session.get(), more);
        next_tokens(s.session.get(), 1);
        s.before = identity(s.session.get());
    };
    truncate.done = [&] { CHECK(kimi_session_length(s.session.get()) == 66); };
    fail_each(truncate);
    append.prepare();
    client::append(s.session.get(), more);
    next_tokens(s.session.get(), 1);
    s.saved = save(s.session.get());
    fail_each(s.of_session("kimi_session_restore_buffer with rules", [&](auto **out, auto *e) {
        return kimi_session_restore_buffer(s.engine.get(), s.saved.data(), s.saved.size(), 0, out,
                                           e);
    }));
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
    const client::Session session = client::open(fresh.get(), endless());
    client::append(session.get(), prompt(70));
    next_tokens(session.get());
    const std::string file = model.dir.file("trace");
    fail_each({"kimi_engine_save_trace", [] {},
               [&](auto *e) { return kimi_engine_save_trace(fresh.get(), file.c_str(), e); },
               [&] { CHECK(!std::filesystem::exists(file)); },
               [&] { CHECK(std::filesystem::remove(file)); }});
}

TEST_CASE("fault: steps ask the system for nothing") {
    const Model model;
    for (const char *fields : {kOneRank, kTwoRanks}) {
        const client::Engine engine = client::load(model.deployment(fields));
        kimi_session *sessions[3];
        client::Session owners[3];
        for (int i = 0; i < 3; ++i) {
            kimi_session_options options = endless();
            options.logprobs = i == 1 ? KIMI_MAX_LOGPROBS : 0;
            owners[i] = client::open(engine.get(), options);
            sessions[i] = owners[i].get();
            const char *const stops[] = {"\x01\x02\x03"};
            REQUIRE(kimi_session_set_stop_strings(sessions[i], stops, 1, nullptr) == KIMI_OK);
            client::append(sessions[i], prompt(60 + 10 * static_cast<std::size_t>(i)));
        }
        const std::string schema = "{}";
        REQUIRE(kimi_session_set_constraint(sessions[2], KIMI_CONSTRAINT_JSON_SCHEMA, schema.data(),
                                            schema.size(), nullptr) == KIMI_OK);
        const kimi_logit_bias bias = {'x', 1};
        REQUIRE(kimi_session_set_logit_bias(sessions[2], &bias, 1, nullptr) == KIMI_OK);
        client::append(sessions[2], prompt(80));
        for (int i = 0; i < 200; ++i) {
            CAPTURE(i);
            kimi_step steps[3];
            for (kimi_step &step : steps) kimi_step_init(&step);
            const MemoryRequests requests;
            const kimi_status status = i % 4 == 0
                                           ? kimi_decode_step(sessions[i / 4 % 3], steps, nullptr)
                                           : kimi_decode_batch(sessions, 3, steps, nullptr);
            const std::uint64_t n_requests = requests.count();
            if (!kInstrumented) CHECK(n_requests == 0);  // there, the KV memory is checked
            CHECK(status == KIMI_OK);
        }
    }
}
