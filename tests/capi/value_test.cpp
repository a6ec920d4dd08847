// Sessions as values: fork, truncate, save and restore, cached prefixes, defragmentation.
#include <algorithm>
#include <cstring>
#include <random>

#include "capi/client.h"
#include "capi/goldens.h"

namespace {

using client::Reply;

kimi_session_options drafted(uint64_t seed, uint32_t budget) {
    kimi_session_options options;
    kimi_session_options_init(&options);
    options.seed = seed;
    options.temperature = 1.2f;
    options.max_tokens = 40;
    options.draft_budget = budget;
    options.flags = KIMI_IGNORE_STOP;
    return options;
}

Reply fresh(kimi_engine *engine, const std::vector<int32_t> &prompt,
            const kimi_session_options &options) {
    const client::Session session = client::open(engine, options);
    client::append(session.get(), prompt);
    return client::finish(session.get());
}

client::Session fork(kimi_session *source, const kimi_session_options *options = nullptr) {
    kimi_session *copy = nullptr;
    client::ErrorRecord error;
    const kimi_status status = kimi_session_fork(source, options, &copy, &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
    return client::Session(copy);
}

std::string save(kimi_session *session) {
    std::size_t size = 0;
    CHECK(kimi_session_save_buffer(session, nullptr, 0, &size, nullptr) == KIMI_TOO_LONG);
    std::string bytes(size, '\0');
    REQUIRE(kimi_session_save_buffer(session, bytes.data(), size, &size, nullptr) == KIMI_OK);
    REQUIRE(size == bytes.size());
    return bytes;
}

std::pair<kimi_status, client::Session> restore(kimi_engine *engine, const std::string &bytes,
                                                uint32_t flags = 0, std::string *text = nullptr) {
    kimi_session *session = nullptr;
    client::ErrorRecord error;
    const kimi_status status =
        kimi_session_restore_buffer(engine, bytes.data(), bytes.size(), flags, &session, &error);
    if (text != nullptr) *text = error.message;
    return {status, client::Session(session)};
}

std::vector<int32_t> join(std::vector<int32_t> a, const std::vector<int32_t> &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

std::vector<int32_t> long_prompt(std::size_t n) {
    std::vector<int32_t> prompt;
    for (const auto &golden : kimi::test::golden_replies())
        prompt = join(join(prompt, golden.prompt), golden.tokens);
    REQUIRE(prompt.size() >= n);
    prompt.resize(n);
    return prompt;
}

kimi_engine_statistics stats(kimi_engine *engine) {
    kimi_engine_statistics statistics;
    kimi_engine_statistics_init(&statistics);
    REQUIRE(kimi_engine_stats(engine, &statistics, nullptr) == KIMI_OK);
    return statistics;
}

}  // namespace

TEST_CASE("values: forks with divergent tails equal fresh sessions") {
    const client::Engine engine = client::load();
    const auto prompt = long_prompt(150);
    const auto options = drafted(5, 8);
    const client::Session root = client::open(engine.get(), options);
    client::append(root.get(), prompt);
    Reply begun;
    while (begun.tokens.size() < 5) {
        const kimi_step s = client::step(root.get());
        begun.tokens.insert(begun.tokens.end(), s.tokens, s.tokens + s.n_tokens);
    }
    // Copies in the middle of the reply go on like the original.
    const client::Session twin = fork(root.get());
    const client::Session grandchild = fork(twin.get());
    const Reply rest = client::finish(root.get());
    CHECK(client::finish(twin.get()).tokens == rest.tokens);
    CHECK(client::finish(grandchild.get()).tokens == rest.tokens);
    CHECK(join(begun.tokens, rest.tokens) == fresh(engine.get(), prompt, options).tokens);

    // Different continuations of the same session.
    std::vector<client::Session> branches;
    for (int32_t branch = 0; branch < 3; ++branch) {
        branches.push_back(fork(root.get()));
        client::append(branches.back().get(), {300 + branch, 301});
    }
    const auto so_far = join(join(prompt, begun.tokens), rest.tokens);
    for (int32_t branch = 0; branch < 3; ++branch)
        CHECK(client::finish(branches[static_cast<std::size_t>(branch)].get()).tokens ==
              fresh(engine.get(), join(so_far, {300 + branch, 301}), options).tokens);
}

TEST_CASE("values: a fork takes other options into the reply") {
    const client::Engine engine = client::load();
    const auto prompt = long_prompt(80);
    const client::Session source = client::open(engine.get(), drafted(1, 0));
    client::append(source.get(), prompt);
    const kimi_step s = client::step(source.get());
    const std::vector<int32_t> first(s.tokens, s.tokens + s.n_tokens);
    const auto other = drafted(2, 16);
    const client::Session copy = fork(source.get(), &other);
    // The copy draws with the other seed from its second token on.
    const Reply reply = client::finish(copy.get());
    const client::Session reference = client::open(engine.get(), drafted(2, 0));
    client::append(reference.get(), join(prompt, first));
    CHECK(std::equal(reply.tokens.begin(), reply.tokens.end(),
                     client::finish(reference.get()).tokens.begin()));
}

TEST_CASE("values: a session truncated to any length continues like a fresh one") {
    const client::Engine engine = client::load();
    const auto prompt = long_prompt(200);
    const auto options = drafted(3, 8);
    for (const uint64_t n : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 199U, 200U, 210U, 230U}) {
        CAPTURE(n);
        const client::Session session = client::open(engine.get(), options);
        client::append(session.get(), prompt);
        const Reply reply = client::finish(session.get());
        auto all = join(prompt, reply.tokens);
        CHECK(kimi_session_length(session.get()) == all.size());
        REQUIRE(kimi_session_truncate(session.get(), n, nullptr) == KIMI_OK);
        CHECK(kimi_session_length(session.get()) == n);
        CHECK(client::step(session.get()).phase == KIMI_PHASE_FINISHED);
        all.resize(n);
        client::append(session.get(), {777, 778});
        CHECK(client::finish(session.get()).tokens ==
              fresh(engine.get(), join(all, {777, 778}), options).tokens);
    }
    const client::Session session = client::open(engine.get(), options);
    client::append(session.get(), prompt);
    CHECK(kimi_session_truncate(session.get(), 201, nullptr) == KIMI_INVALID_ARGUMENT);
}

TEST_CASE("values: a restored session goes on as if nothing had happened, in another engine too") {
    const client::Engine engine = client::load(), other = client::load();
    const kimi::test::TempDir dir;
    const auto prompt = long_prompt(330);  // longer than the drafter's window
    for (const uint32_t budget : {0U, 8U}) {
        const auto options = drafted(9, budget);
        const Reply whole = fresh(engine.get(), prompt, options);
        const client::Session session = client::open(engine.get(), options);
        client::append(session.get(), prompt);
        std::vector<int32_t> tokens;
        std::string text;
        for (int i = 0;; ++i) {
            CAPTURE(i);
            if (i % 3 == 0) {  // in the prompt, at its end, in the reply, and after it
                const auto [status, copy] =
                    restore(i % 2 == 0 ? engine.get() : other.get(), save(session.get()));
                REQUIRE(status == KIMI_OK);
                const Reply rest = client::finish(copy.get());
                CHECK(join(tokens, rest.tokens) == whole.tokens);
                CHECK(text + rest.text == whole.text);
                CHECK(rest.finish == whole.finish);
            }
            const kimi_step s = client::step(session.get());
            tokens.insert(tokens.end(), s.tokens, s.tokens + s.n_tokens);
            text.append(s.text, s.text_len);
            if (s.finish_reason != KIMI_FINISH_NONE) break;
        }
        // Through a file, after the end of the reply; both take the same next turn.
        const std::string path = dir.file("session");
        REQUIRE(kimi_session_save(session.get(), path.c_str(), nullptr) == KIMI_OK);
        kimi_session *restored = nullptr;
        REQUIRE(kimi_session_restore(other.get(), path.c_str(), 0, &restored, nullptr) == KIMI_OK);
        const client::Session second(restored);
        client::append(second.get(), {500});
        client::append(session.get(), {500});
        CHECK(client::finish(second.get()).tokens == client::finish(session.get()).tokens);
    }
    CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) ==
          1);  // no temporary files left
}

TEST_CASE("values: what is set for the next reply during one is saved with the session") {
    const client::Engine engine = client::load();
    const std::vector<int32_t> prompt(80, 300);
    const client::Session session = client::open(engine.get(), drafted(9, 4));
    client::append(session.get(), prompt);
    client::step(session.get());
    auto next = drafted(77, 0);
    next.max_tokens = 6;
    next.flags = 0;
    REQUIRE(kimi_session_set_options(session.get(), &next, nullptr) == KIMI_OK);
    REQUIRE(kimi_session_set_constraint(session.get(), KIMI_CONSTRAINT_REGEX, "[ab]+", 5,
                                        nullptr) == KIMI_OK);
    const auto [status, copy] = restore(engine.get(), save(session.get()));
    REQUIRE(status == KIMI_OK);
    // The reply in progress, and then the next one.
    CHECK(client::finish(copy.get()).tokens == client::finish(session.get()).tokens);
    for (const client::Session *s : {&session, &copy}) client::append(s->get(), {500});
    const Reply reply = client::finish(copy.get());
    CHECK(reply.text.find_first_not_of("ab") == std::string::npos);
    CHECK(!reply.text.empty());
    CHECK(reply.tokens.size() <= 6);
    CHECK(reply.tokens == client::finish(session.get()).tokens);
}

TEST_CASE("values: drafting goes on after a restore as before") {
    const client::Engine engine = client::load();
    const auto prompt = long_prompt(500);
    kimi_session_options options = client::greedy();
    options.draft_budget = 16;
    options.max_tokens = 60;
    options.flags = KIMI_IGNORE_STOP;
    const client::Session session = client::open(engine.get(), options);
    client::append(session.get(), prompt);
    while (client::step(session.get()).n_tokens == 0) {
    }
    const auto [status, copy] = restore(engine.get(), save(session.get()));
    REQUIRE(status == KIMI_OK);
    CHECK(client::finish(copy.get()).steps == client::finish(session.get()).steps);
}

TEST_CASE("values: every damaged byte of a saved session is refused") {
    const client::Engine engine = client::load();
    const client::Session session = client::open(engine.get(), drafted(1, 4));
    client::append(session.get(), long_prompt(70));
    client::step(session.get());
    const std::string good = save(session.get());
    std::mt19937 random(1);
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < 600; ++i) places.push_back(i);  // header and tokens
    for (int i = 0; i < 300; ++i) places.push_back(random() % good.size());
    for (std::size_t i = 1; i < 40; ++i) places.push_back(good.size() - i);
    for (const std::size_t at : places) {
        CAPTURE(at);
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
        std::string text;
        const auto [status, copy] = restore(engine.get(), bad, 0, &text);
        CHECK((status == KIMI_CORRUPT || status == KIMI_VERSION_MISMATCH));
        CHECK(!text.empty());
    }
    for (const std::size_t n : {std::size_t{0}, std::size_t{7}, std::size_t{100}, std::size_t{200},
                                good.size() / 2, good.size() - 1})
        CHECK(restore(engine.get(), good.substr(0, n)).first == KIMI_CORRUPT);
    CHECK(restore(engine.get(), good + "x").first == KIMI_CORRUPT);
    CHECK(restore(engine.get(), good).first == KIMI_OK);
}

TEST_CASE("values: what another engine cannot use is named, and can be computed again") {
    const client::Engine engine = client::load();
    const kimi::test::TempDir dir;
    const auto make = [&](const std::string &fields) {
        return client::load(
            dir.write("d.json", "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\"" + fields + "}"));
    };
    const std::string drafter = ", \"drafter\": \"" KIMI_MODELS "/nano-k2/drafter\"";
    const client::Session session = client::open(engine.get(), drafted(4, 0));
    const auto prompt = long_prompt(100);
    client::append(session.get(), prompt);
    std::vector<int32_t> begun;
    while (begun.size() < 3) {
        const kimi_step s = client::step(session.get());
        begun.insert(begun.end(), s.tokens, s.tokens + s.n_tokens);
    }
    const std::string bytes = save(session.get());
    const auto whole = join(begun, client::finish(session.get()).tokens);

    struct Case {
        std::string fields;
        const char *text;
    };
    const Case cases[] = {
        {"", "another drafter, or with none"},
        {drafter + R"(, "kv": {"type": "f32"})", "another KV type"},
        {drafter + R"(, "numeric": {"qk_latent_norm_eps": 1e-6})", "other numeric options"},
        {drafter + R"(, "numeric": {"rope_attention_factor": 1.4})", "other numeric options"},
    };
    for (const Case &c : cases) {
        CAPTURE(c.fields);
        const client::Engine other = make(c.fields);
        std::string text;
        CHECK(restore(other.get(), bytes, 0, &text).first == KIMI_VERSION_MISMATCH);
        CHECK(text.find(c.text) != std::string::npos);
        const auto [status, copy] = restore(other.get(), bytes, KIMI_RECOMPUTE);
        REQUIRE(status == KIMI_OK);
        const Reply rest = client::finish(copy.get());
        if (c.fields.empty())
            CHECK(join(begun, rest.tokens) == whole);  // the same numbers, computed again
    }
    // Damaged KV, intact tokens.
    std::string bad = bytes;
    bad[bad.size() / 2] ^= 1;
    CHECK(restore(engine.get(), bad).first == KIMI_CORRUPT);
    const auto [status, copy] = restore(engine.get(), bad, KIMI_RECOMPUTE);
    REQUIRE(status == KIMI_OK);
    CHECK(join(begun, client::finish(copy.get()).tokens) == whole);
}

TEST_CASE("values: saving to a place that cannot be written is a status and leaves the old file") {
    const client::Engine engine = client::load();
    const kimi::test::TempDir dir;
    const client::Session session = client::open(engine.get());
    client::append(session.get(), {300});
    client::ErrorRecord error;
    CHECK(kimi_session_save(session.get(), dir.file("none/session").c_str(), &error) ==
          KIMI_NOT_FOUND);
    CHECK(std::string(error.message).find(dir.file("none/session")) != std::string::npos);
    std::filesystem::create_directory(dir.file("folder"));
    dir.write("folder/file", "x");
    CHECK(kimi_session_save(session.get(), dir.file("folder").c_str(), &error) == KIMI_IO);
    CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
    kimi_session *out = nullptr;
    CHECK(kimi_session_restore(engine.get(), dir.file("none").c_str(), 0, &out, nullptr) ==
          KIMI_NOT_FOUND);
    CHECK(out == nullptr);
}

TEST_CASE("values: a prompt that was seen before is not processed again, and acceptance stays" *
          doctest::test_suite("slow")) {
    const auto goldens = kimi::test::golden_replies();
    kimi_session_options options = client::greedy();
    options.draft_budget = 8;
    const auto preamble = long_prompt(400);
    double steps_without = 0, steps_with = 0;
    for (const auto &golden : goldens) {
        CAPTURE(golden.name);
        const auto prompt = join(preamble, golden.prompt);
        const client::Engine cold = client::load(), warm = client::load();
        const Reply without = fresh(cold.get(), prompt, options);
        const auto other = join(preamble, {321, 322, 323});  // the same beginning, another end
        fresh(warm.get(), other, options);
        const Reply with = fresh(warm.get(), prompt, options);
        CHECK(stats(warm.get()).prefix_hits == 1);
        CHECK(stats(warm.get()).prefix_tokens > 0);
        CHECK(with.tokens == without.tokens);
        // And once more, with everything but the last page cached.
        const Reply again = fresh(warm.get(), prompt, options);
        CHECK(again.tokens == without.tokens);
        CHECK(again.steps == without.steps);
        steps_without +=
            static_cast<double>(without.tokens.size()) / static_cast<double>(without.steps.size());
        steps_with +=
            static_cast<double>(with.tokens.size()) / static_cast<double>(with.steps.size());
    }
    MESSAGE("committed per step without a hit ", steps_without / 14, ", with one ",
            steps_with / 14);
    CHECK(std::abs(steps_with - steps_without) <= 0.02 * steps_without);
}

TEST_CASE("values: moving pages while sessions decode does not change their text") {
    const kimi::test::TempDir dir;
    const client::Engine engine = client::load(dir.write(
        "d.json", "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\", \"drafter\": \"" KIMI_MODELS
                  "/nano-k2/drafter\", \"kv\": {\"capacity_tokens\": 3200}}"));
    const auto goldens = kimi::test::golden_replies();
    std::vector<client::Session> sessions;
    std::vector<Reply> replies(8), expected;
    for (std::size_t i = 0; i < 8; ++i) {
        const auto prompt = join(long_prompt(50 + 30 * i), goldens[i].prompt);
        expected.push_back(fresh(engine.get(), prompt, drafted(i, 8)));
        sessions.push_back(client::open(engine.get(), drafted(i, 8)));
        client::append(sessions[i].get(), prompt);
    }
    for (int round = 0; round < 100; ++round)
        for (std::size_t i = 0; i < 8; ++i) {
            if (round == static_cast<int>(i)) client::open(engine.get());
            const kimi_step s = client::step(sessions[i].get());
            replies[i].tokens.insert(replies[i].tokens.end(), s.tokens, s.tokens + s.n_tokens);
            REQUIRE(kimi_engine_defragment(engine.get(), nullptr) == KIMI_OK);
        }
    for (std::size_t i = 0; i < 8; ++i) CHECK(replies[i].tokens == expected[i].tokens);
    CHECK(stats(engine.get()).pages_moved > 0);
}
