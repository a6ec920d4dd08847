// What the library says to bad input, and that it says nothing else.
#include <atomic>
#include <limits>
#include <thread>

#include "capi/bad_input.h"

using namespace bad_input;

TEST_CASE_FIXTURE(Nano, "bad input: a NULL argument is named, whichever function it is passed to") {
    kimi_engine_options options;
    kimi_engine_options_init(&options);
    kimi_engine *new_engine = nullptr;
    kimi_tokenizer *new_tokenizer = nullptr;
    kimi_session *new_session = nullptr;
    kimi_session *const none[] = {session, nullptr};
    kimi_session_statistics stats;
    kimi_session_statistics_init(&stats);
    int32_t ids[8] = {};
    char text[8] = {};
    const char *const stops[] = {"a", nullptr};
    std::size_t n = 0;
    int32_t number = 0;
    struct Case {
        const char *name;
        std::function<kimi_status(kimi_error *)> call;
    };
    const Case cases[] = {
        {"options", [&](auto *e) { return kimi_engine_create(nullptr, &new_engine, e); }},
        {"out", [&](auto *e) { return kimi_engine_create(&options, nullptr, e); }},
        {"options.deployment",
         [&](auto *e) { return kimi_engine_create(&options, &new_engine, e); }},
        {"checkpoint_dir",
         [&](auto *e) { return kimi_tokenizer_create(nullptr, &new_tokenizer, e); }},
        {"out", [&](auto *e) { return kimi_tokenizer_create(".", nullptr, e); }},
        {"tokenizer", [&](auto *e) { return kimi_tokenize(nullptr, "a", 1, 0, ids, 8, &n, e); }},
        {"text", [&](auto *e) { return kimi_tokenize(tokenizer, nullptr, 1, 0, ids, 8, &n, e); }},
        {"tokens", [&](auto *e) { return kimi_tokenize(tokenizer, "a", 1, 0, nullptr, 8, &n, e); }},
        {"n", [&](auto *e) { return kimi_tokenize(tokenizer, "a", 1, 0, ids, 8, nullptr, e); }},
        {"tokenizer", [&](auto *e) { return kimi_detokenize(nullptr, ids, 1, text, 8, &n, e); }},
        {"tokens", [&](auto *e) { return kimi_detokenize(tokenizer, nullptr, 1, text, 8, &n, e); }},
        {"text", [&](auto *e) { return kimi_detokenize(tokenizer, ids, 1, nullptr, 8, &n, e); }},
        {"len", [&](auto *e) { return kimi_detokenize(tokenizer, ids, 1, text, 8, nullptr, e); }},
        {"tokenizer", [&](auto *e) { return kimi_chat_render(nullptr, "{}", 2, text, 8, &n, e); }},
        {"json", [&](auto *e) { return kimi_chat_render(tokenizer, nullptr, 2, text, 8, &n, e); }},
        {"text",
         [&](auto *e) {
             return kimi_chat_render(tokenizer, R"({"messages":[]})", 15, nullptr, 8, &n, e);
         }},
        {"len",
         [&](auto *e) {
             return kimi_chat_render(tokenizer, R"({"messages":[]})", 15, text, 8, nullptr, e);
         }},
        {"engine", [&](auto *e) { return kimi_session_create(nullptr, nullptr, &new_session, e); }},
        {"out", [&](auto *e) { return kimi_session_create(engine.get(), nullptr, nullptr, e); }},
        {"session", [&](auto *e) { return kimi_session_set_options(nullptr, nullptr, e); }},
        {"session", [&](auto *e) { return kimi_session_set_constraint(nullptr, 0, "", 0, e); }},
        {"text", [&](auto *e) { return kimi_session_set_constraint(session, 1, nullptr, 2, e); }},
        {"session", [&](auto *e) { return kimi_session_set_logit_bias(nullptr, nullptr, 0, e); }},
        {"biases", [&](auto *e) { return kimi_session_set_logit_bias(session, nullptr, 1, e); }},
        {"session", [&](auto *e) { return kimi_session_set_stop_strings(nullptr, nullptr, 0, e); }},
        {"strings", [&](auto *e) { return kimi_session_set_stop_strings(session, nullptr, 1, e); }},
        {"strings[1]",
         [&](auto *e) { return kimi_session_set_stop_strings(session, stops, 2, e); }},
        {"session", [&](auto *e) { return kimi_session_append(nullptr, ids, 1, e); }},
        {"tokens", [&](auto *e) { return kimi_session_append(session, nullptr, 1, e); }},
        {"session", [&](auto *e) { return kimi_session_append_chat(nullptr, "{}", 2, e); }},
        {"json", [&](auto *e) { return kimi_session_append_chat(session, nullptr, 2, e); }},
        {"session", [&](auto *e) { return kimi_decode_step(nullptr, &step, e); }},
        {"out", [&](auto *e) { return kimi_decode_step(session, nullptr, e); }},
        {"sessions", [&](auto *e) { return kimi_decode_batch(nullptr, 1, &step, e); }},
        {"sessions[1]", [&](auto *e) { return kimi_decode_batch(none, 2, &step, e); }},
        {"out", [&](auto *e) { return kimi_decode_batch(&session, 1, nullptr, e); }},
        {"session", [&](auto *e) { return kimi_session_stats(nullptr, &stats, e); }},
        {"out", [&](auto *e) { return kimi_session_stats(session, nullptr, e); }},
        {"session", [&](auto *e) { return kimi_session_submit(nullptr, e); }},
        {"session", [&](auto *e) { return kimi_session_poll(nullptr, &step, &number, e); }},
        {"out", [&](auto *e) { return kimi_session_poll(session, nullptr, &number, e); }},
        {"ready", [&](auto *e) { return kimi_session_poll(session, &step, nullptr, e); }},
        {"session", [&](auto *e) { return kimi_session_wake_fd(nullptr, &number, e); }},
        {"fd", [&](auto *e) { return kimi_session_wake_fd(session, nullptr, e); }},
        {"engine", [&](auto *e) { return kimi_engine_save_trace(nullptr, "x", e); }},
        {"path", [&](auto *e) { return kimi_engine_save_trace(engine.get(), nullptr, e); }},
    };
    for (const Case &c : cases)
        expect(KIMI_INVALID_ARGUMENT, std::string(c.name) + " is NULL", c.call);
    CHECK(new_engine == nullptr);
    CHECK(new_tokenizer == nullptr);
    CHECK(new_session == nullptr);

    kimi_error_init_sized(nullptr, 8);
    kimi_engine_options_init_sized(nullptr, 8);
    kimi_session_options_init_sized(nullptr, 8);
    kimi_step_init_sized(nullptr, 8);
    kimi_session_statistics_init_sized(nullptr, 8);
    kimi_engine_destroy(nullptr);
    kimi_tokenizer_destroy(nullptr);
    kimi_session_destroy(nullptr);
    kimi_session_cancel(nullptr);
    CHECK(kimi_session_retain(nullptr) == nullptr);
    CHECK(kimi_engine_tokenizer(nullptr) == nullptr);
    // NULL is an empty array, and nothing to do is done.
    CHECK(kimi_tokenize(tokenizer, nullptr, 0, 0, nullptr, 0, &n, nullptr) == KIMI_OK);
    CHECK(kimi_decode_batch(nullptr, 0, nullptr, nullptr) == KIMI_OK);
    // The session is still usable.
    client::append(session, {300, 301});
    CHECK(client::step(session).n_tokens == 1);
}

TEST_CASE_FIXTURE(Nano, "bad input: structs of another version") {
    struct {
        kimi_session_options options;
        char tail[16];
    } newer{};
    kimi_session_options_init(&newer.options);
    const auto with_size = [&](std::size_t size) {
        newer.options.struct_size = size;
        return [&](kimi_error *error) {
            return kimi_session_set_options(session, &newer.options, error);
        };
    };
    // Of the first release, and today's.
    constexpr std::size_t kFirst = 48, kSize = sizeof(kimi_session_options);
    for (const std::size_t size : {std::size_t{0}, kFirst - 1, std::size_t{4097}, SIZE_MAX})
        expect(KIMI_INVALID_ARGUMENT, kimi::cat("options.struct_size is ", size), with_size(size));
    CHECK(with_size(kFirst)(nullptr) == KIMI_OK);
    CHECK(with_size(kSize)(nullptr) == KIMI_OK);
    CHECK(with_size(sizeof newer)(nullptr) == KIMI_OK);
    newer.tail[15] = 1;
    expect(KIMI_VERSION_MISMATCH, "options uses members that this version",
           with_size(sizeof newer));

    kimi_engine_options options{};
    kimi_engine *none = nullptr;
    expect(KIMI_INVALID_ARGUMENT, "options.struct_size is 0",
           [&](auto *e) { return kimi_engine_create(&options, &none, e); });
    client::append(session, {300});
    for (const std::size_t size : {std::size_t{0}, std::size_t{79}, SIZE_MAX}) {
        step.struct_size = size;
        expect(KIMI_INVALID_ARGUMENT, kimi::cat("out.struct_size is ", size),
               [&](auto *e) { return kimi_decode_step(session, &step, e); });
    }
    kimi_session_statistics stats{};
    expect(KIMI_INVALID_ARGUMENT, "out.struct_size is 0",
           [&](auto *e) { return kimi_session_stats(session, &stats, e); });

    // The elements of a batch lie struct_size apart.
    const client::Session other = client::open(engine.get());
    client::append(other.get(), {300});
    struct {
        kimi_step step;
        char tail[16];
    } steps[2]{};
    kimi_step_init_sized(&steps[0].step, sizeof steps[0]);
    kimi_session *const both[] = {session, other.get()};
    CHECK(kimi_decode_batch(both, 2, &steps[0].step, nullptr) == KIMI_OK);
    for (const auto &element : steps) {
        CHECK(element.step.struct_size == sizeof element);
        CHECK(element.step.n_tokens == 1);
    }
}

TEST_CASE_FIXTURE(Silence, "bad input: the error record is filled as far as it reaches") {
    // The text begins with the path: characters of two bytes, more than a record holds.
    std::string path;
    for (int i = 0; i < 300; ++i) path += "é";
    for (std::size_t size = 0; size <= sizeof(kimi_error) + 8; ++size) {
        CAPTURE(size);
        alignas(kimi_error) char memory[sizeof(kimi_error) + 16];
        std::memset(memory, 0x5a, sizeof memory);
        auto *error = reinterpret_cast<kimi_error *>(memory);
        error->struct_size = size;
        CHECK(create(path, error) == KIMI_IO);
        constexpr std::size_t kText = offsetof(kimi_error, message);
        const std::size_t n_text = size < kText ? 0 : std::min(size - kText, sizeof error->message);
        for (std::size_t i = kText + n_text; i < sizeof memory; ++i) REQUIRE(memory[i] == 0x5a);
        CHECK(error->status == (size < kText ? 0x5a5a5a5a : KIMI_IO));
        if (n_text == 0) continue;
        const std::string expected = path.substr(0, (n_text - 1) / 2 * 2);
        CHECK(error->message == expected);
    }
}

TEST_CASE_FIXTURE(Nano, "bad input: buffers that are too small get the needed size") {
    const std::string words = "Hello, world!";
    int32_t ids[32];
    std::size_t n = 0;
    REQUIRE(kimi_tokenize(tokenizer, words.data(), words.size(), 0, ids, 32, &n, nullptr) ==
            KIMI_OK);
    REQUIRE(n > 1);
    const std::size_t needed = n;
    for (const std::size_t cap : {std::size_t{0}, std::size_t{1}, needed - 1}) {
        n = 0;
        expect(KIMI_TOO_LONG, kimi::cat("room for ", cap, ", ", needed, " are needed"),
               [&](auto *e) {
                   return kimi_tokenize(tokenizer, words.data(), words.size(), 0,
                                        cap > 0 ? ids : nullptr, cap, &n, e);
               });
        CHECK(n == needed);
    }
    char text[32];
    expect(KIMI_TOO_LONG, "room for 12, 13 are needed",
           [&](auto *e) { return kimi_detokenize(tokenizer, ids, needed, text, 12, &n, e); });
    CHECK(n == words.size());
    CHECK(kimi_detokenize(tokenizer, ids, needed, text, 13, &n, nullptr) == KIMI_OK);
    CHECK(std::string_view(text, n) == words);
    const std::string json = R"({"messages": [{"role": "user", "content": "hi"}]})";
    expect(KIMI_TOO_LONG, "text has room for 32", [&](auto *e) {
        return kimi_chat_render(tokenizer, json.data(), json.size(), text, 32, &n, e);
    });
    CHECK(n > 32);
}

TEST_CASE_FIXTURE(Nano, "bad input: text that is not UTF-8 and chats that are not JSON are named") {
    int32_t ids[8];
    std::size_t n = 0;
    expect(KIMI_INVALID_ARGUMENT, "text: invalid UTF-8 at byte 2",
           [&](auto *e) { return kimi_tokenize(tokenizer, "ab\xc3", 3, 0, ids, 8, &n, e); });
    expect(KIMI_INVALID_ARGUMENT, "flags is 2, must be 0 or KIMI_SPECIALS",
           [&](auto *e) { return kimi_tokenize(tokenizer, "ab", 2, 2, ids, 8, &n, e); });
    struct Case {
        std::string json;
        const char *text;
    };
    const Case cases[] = {
        {"", "invalid JSON at byte"},
        {"{\"messages\": [", "invalid JSON at byte"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\"}]}", "invalid JSON at byte"},
        {std::string("{}\0", 3), "invalid JSON at byte 3"},
        {"[]", "object"},
        {"{}", "messages"},
        {R"({"messages": 7})", "messages"},
        {R"({"messages": [7]})", "messages[0]"},
        {R"({"messages": [{"content": "x"}]})", "role"},
        {R"({"messages": [{"role": "user", "content": 7}]})", "content"},
        {R"({"messages": [], "thinking": "yes"})", "thinking"},
        {R"({"messages": [], "tools": {}})", "tools"},
    };
    for (const Case &c : cases) {
        CAPTURE(c.json);
        expect(KIMI_INVALID_ARGUMENT, c.text, [&](auto *e) {
            return kimi_chat_render(tokenizer, c.json.data(), c.json.size(), nullptr, 0, &n, e);
        });
        expect(KIMI_INVALID_ARGUMENT, c.text, [&](auto *e) {
            return kimi_session_append_chat(session, c.json.data(), c.json.size(), e);
        });
    }
    const std::string image =
        R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]})";
    expect(KIMI_UNSUPPORTED, "image", [&](auto *e) {
        return kimi_session_append_chat(session, image.data(), image.size(), e);
    });
    CHECK(kimi_decode_step(session, &step, nullptr) == KIMI_OK);
    CHECK(step.phase == KIMI_PHASE_FINISHED);  // nothing was appended
}

TEST_CASE_FIXTURE(Nano, "bad input: tokens outside the vocabulary are named with their index") {
    for (const int32_t bad :
         {-1, 4096, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
        const int32_t ids[] = {1, 2, bad, 4};
        expect(KIMI_INVALID_ARGUMENT, kimi::cat("tokens[2] is ", bad, ", must be from 0 to 4095"),
               [&](auto *e) { return kimi_session_append(session, ids, 4, e); });
        std::size_t n = 0;
        expect(KIMI_INVALID_ARGUMENT, kimi::cat("token ", bad, " is not in the vocabulary of 4096"),
               [&](auto *e) { return kimi_detokenize(tokenizer, ids, 4, nullptr, 0, &n, e); });
    }
    expect(KIMI_INVALID_ARGUMENT, "no tokens to append",
           [&](auto *e) { return kimi_session_append(session, nullptr, 0, e); });
    client::append(session, {300, 301});
    CHECK(client::step(session).prompt_total == 2);
}

TEST_CASE_FIXTURE(Silence,
                  "bad input: a prompt over the context limit leaves the session as it was") {
    const TempDir dir;
    const client::Engine engine = client::load(dir.write(
        "d.json", R"({"checkpoint": ")" KIMI_MODELS R"(/nano-k2", "context_limit": 100})"));
    const client::Session session = client::open(engine.get());
    const std::vector<int32_t> tokens(100, 300);
    expect(KIMI_TOO_LONG, "100 tokens long, at most 99",
           [&](auto *e) { return kimi_session_append(session.get(), tokens.data(), 100, e); });
    client::append(session.get(), std::vector<int32_t>(90, 300));
    expect(KIMI_TOO_LONG, "90 + 100 tokens long",
           [&](auto *e) { return kimi_session_append(session.get(), tokens.data(), 100, e); });
    const std::string words(800, 'x');
    const std::string chat = R"({"messages": [{"role": "user", "content": ")" + words + "\"}]}";
    expect(KIMI_TOO_LONG, "at most 99", [&](auto *e) {
        return kimi_session_append_chat(session.get(), chat.data(), chat.size(), e);
    });
    CHECK(client::step(session.get()).prompt_total == 90);
}

TEST_CASE_FIXTURE(Nano, "bad input: session options out of range are named") {
    using Options = kimi_session_options;
    struct Case {
        const char *text;
        std::function<void(Options &)> change;
    };
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Case cases[] = {
        {"options.temperature is -1", [](Options &o) { o.temperature = -1; }},
        {"options.temperature is nan", [&](Options &o) { o.temperature = nan; }},
        {"options.temperature is inf", [](Options &o) { o.temperature = HUGE_VALF; }},
        {"options.top_p is 1.5", [](Options &o) { o.top_p = 1.5f; }},
        {"options.min_p is -0.5", [](Options &o) { o.min_p = -0.5f; }},
        {"options.draft_budget is 64", [](Options &o) { o.draft_budget = 64; }},
        {"options.draft_mode is 2", [](Options &o) { o.draft_mode = 2; }},
        {"options.flags is 2", [](Options &o) { o.flags = 2; }},
    };
    for (const Case &c : cases) {
        Options options = client::greedy();
        c.change(options);
        kimi_session *none = nullptr;
        expect(KIMI_INVALID_ARGUMENT, c.text,
               [&](auto *e) { return kimi_session_create(engine.get(), &options, &none, e); });
        expect(KIMI_INVALID_ARGUMENT, c.text,
               [&](auto *e) { return kimi_session_set_options(session, &options, e); });
    }
}

TEST_CASE_FIXTURE(Nano, "bad input: constraints, biases and stop strings that are wrong") {
    const auto constrain = [&](uint32_t kind, std::string_view text) {
        return [=, this](auto *e) {
            return kimi_session_set_constraint(session, kind, text.data(), text.size(), e);
        };
    };
    expect(KIMI_INVALID_ARGUMENT, "kind is 4", constrain(4, "{}"));
    expect(KIMI_INVALID_ARGUMENT, "schema: invalid JSON at byte 2",
           constrain(KIMI_CONSTRAINT_JSON_SCHEMA, "{"));
    expect(KIMI_UNSUPPORTED, "schema#/items/not",
           constrain(KIMI_CONSTRAINT_JSON_SCHEMA, R"({"items": {"not": {}}})"));
    expect(KIMI_INVALID_ARGUMENT, "no value satisfies",
           constrain(KIMI_CONSTRAINT_JSON_SCHEMA, "false"));
    expect(KIMI_INVALID_ARGUMENT, "regex: byte 0: unmatched (",
           constrain(KIMI_CONSTRAINT_REGEX, "(a"));
    expect(KIMI_UNSUPPORTED, "regex: byte 1: a back reference",
           constrain(KIMI_CONSTRAINT_REGEX, "a\\1"));
    expect(KIMI_TOO_LONG, "too complex", constrain(KIMI_CONSTRAINT_REGEX, "(a|b)*a(a|b){20}"));
    expect(KIMI_INVALID_ARGUMENT, "tools: expected", constrain(KIMI_CONSTRAINT_TOOLS, "[]"));
    const auto bias = [&](int32_t token, float value) {
        return [=, this](auto *e) {
            const kimi_logit_bias biases[] = {{0, 1}, {token, value}};
            return kimi_session_set_logit_bias(session, biases, 2, e);
        };
    };
    expect(KIMI_INVALID_ARGUMENT, "biases[1].token is -1", bias(-1, 0));
    expect(KIMI_INVALID_ARGUMENT, "biases[1].token is 1000000", bias(1000000, 0));
    expect(KIMI_INVALID_ARGUMENT, "biases[1].bias is 101", bias(1, 101));
    expect(KIMI_INVALID_ARGUMENT, "biases[1].bias is nan", bias(1, NAN));
    const auto stop = [&](std::size_t n, const std::string &last) {
        return [=, this](auto *e) {
            std::vector<const char *> strings(n, "a");
            strings.back() = last.c_str();
            return kimi_session_set_stop_strings(session, strings.data(), n, e);
        };
    };
    expect(KIMI_INVALID_ARGUMENT, "n is 17", stop(17, "a"));
    expect(KIMI_INVALID_ARGUMENT, "strings[2] has 0 bytes", stop(3, ""));
    expect(KIMI_INVALID_ARGUMENT, "strings[2] has 257 bytes", stop(3, std::string(257, 'x')));
    expect(KIMI_INVALID_ARGUMENT, "strings[0] is not UTF-8", stop(1, "\xC3"));
    // The session is still usable, and free.
    client::append(session, {300, 301});
    CHECK(client::step(session).n_tokens == 1);
}

TEST_CASE_FIXTURE(Nano, "bad input: a batch of twice the same session, or of two engines") {
    const client::Engine other_engine = client::load();
    const client::Session other = client::open(other_engine.get());
    kimi_step steps[2];
    kimi_step_init(&steps[0]);
    kimi_session *const twice[] = {session, session};
    expect(KIMI_INVALID_ARGUMENT, "sessions[1] is in use by another call, or named twice",
           [&](auto *e) { return kimi_decode_batch(twice, 2, steps, e); });
    kimi_session *const foreign[] = {session, other.get()};
    expect(KIMI_INVALID_ARGUMENT, "different engines",
           [&](auto *e) { return kimi_decode_batch(foreign, 2, steps, e); });
    const std::vector<kimi_session *> many(257, session);
    expect(KIMI_INVALID_ARGUMENT, "n is 257, at most 256",
           [&](auto *e) { return kimi_decode_batch(many.data(), many.size(), steps, e); });
    // Neither session is held by a call that failed.
    for (kimi_session *s : foreign) {
        client::append(s, {300});
        CHECK(client::step(s).n_tokens == 1);
    }
}

TEST_CASE_FIXTURE(Nano, "bad input: one session in two threads at once") {
    client::append(session, std::vector<int32_t>(5000, 300));
    std::atomic<bool> refused{false};
    std::thread second([&] {
        while (!refused) {
            client::ErrorRecord error;
            const kimi_status status = kimi_session_set_options(session, nullptr, &error);
            if (status == KIMI_OK) continue;
            refused = status == KIMI_INVALID_ARGUMENT &&
                      contains(error.message, "session is in use by another call");
            if (!refused) break;
        }
    });
    kimi_status status = KIMI_OK;
    while (!refused && (status == KIMI_OK || status == KIMI_INVALID_ARGUMENT))
        status = kimi_decode_step(session, &step, nullptr);
    second.join();
    CHECK(refused);
    CHECK(kimi_decode_step(session, &step, nullptr) == KIMI_OK);
}
