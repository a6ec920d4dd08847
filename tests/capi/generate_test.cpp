#include <atomic>
#include <thread>

#include "capi/client.h"
#include "capi/goldens.h"

namespace {

using client::Reply;

std::string plain_deployment(const kimi::test::TempDir &dir, const std::string &fields) {
    return dir.write("d.json", "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\"" + fields + "}");
}

}  // namespace

TEST_CASE("generate: every greedy continuation equals the reference") {
    const client::Engine engine = client::load();
    for (const auto &golden : kimi::test::golden_replies()) {
        CAPTURE(golden.name);
        const client::Session session = client::open(engine.get());
        client::append(session.get(), golden.prompt);
        const Reply reply = client::finish(session.get());
        CHECK(reply.tokens == golden.tokens);
        CHECK(reply.finish == golden.finish());
        // The text is the reply without its stop token.
        CHECK(reply.text + "<|im_end|>" == golden.reply);
    }
}

TEST_CASE("generate: KV type, chunk size and threads do not change the tokens") {
    const auto goldens = kimi::test::golden_replies();
    const kimi::test::TempDir dir;
    for (const char *fields :
         {R"(, "kv": {"type": "f32"})", R"(, "prefill_chunk": 7)", R"(, "threads": 5)"}) {
        CAPTURE(fields);
        const client::Engine engine = client::load(plain_deployment(dir, fields));
        for (std::size_t i = 0; i < goldens.size(); i += 5) {
            const client::Session session = client::open(engine.get());
            client::append(session.get(), goldens[i].prompt);
            CHECK(client::finish(session.get()).tokens == goldens[i].tokens);
        }
    }
}

TEST_CASE(
    "generate: the step that ends the prompt commits one token, and progress counts the prompt") {
    const kimi::test::TempDir dir;
    const client::Engine engine = client::load(plain_deployment(dir, R"(, "prefill_chunk": 10)"));
    const client::Session session = client::open(engine.get());
    client::append(session.get(), std::vector<int32_t>(25, 300));
    for (const uint64_t done : {10U, 20U}) {
        const kimi_step s = client::step(session.get());
        CHECK(s.phase == KIMI_PHASE_PREFILL);
        CHECK(s.n_tokens == 0);
        CHECK(s.prompt_done == done);
        CHECK(s.prompt_total == 25);
    }
    const kimi_step s = client::step(session.get());
    CHECK(s.phase == KIMI_PHASE_DECODE);
    CHECK(s.n_tokens == 1);
    CHECK(s.prompt_done == 25);
}

TEST_CASE("generate: max_tokens and the context limit end a reply exactly") {
    const kimi::test::TempDir dir;
    const client::Engine engine = client::load(plain_deployment(dir, R"(, "context_limit": 40)"));
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    options.max_tokens = 5;
    const client::Session session = client::open(engine.get(), options);
    client::append(session.get(), std::vector<int32_t>(10, 300));
    Reply reply = client::finish(session.get());
    CHECK(reply.tokens.size() == 5);
    CHECK(reply.finish == KIMI_FINISH_LENGTH);

    const kimi_step after = client::step(session.get());
    CHECK(after.n_tokens == 0);
    CHECK(after.phase == KIMI_PHASE_FINISHED);
    CHECK(after.finish_reason == KIMI_FINISH_LENGTH);

    options.max_tokens = 0;
    CHECK(kimi_session_set_options(session.get(), &options, nullptr) == KIMI_OK);
    client::append(session.get(), std::vector<int32_t>(10, 301));
    reply = client::finish(session.get());
    CHECK(reply.tokens.size() == 15);  // 10 + 5 + 10 + 15 = 40
    CHECK(reply.finish == KIMI_FINISH_LENGTH);

    client::ErrorRecord error;
    const int32_t token = 300;
    CHECK(kimi_session_append(session.get(), &token, 1, &error) == KIMI_TOO_LONG);
    CHECK(std::string(error.message).find("at most 39") != std::string::npos);
}

TEST_CASE("generate: a conversation in two turns equals the same tokens given at once") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    const client::Session turns = client::open(engine.get());
    client::append(turns.get(), goldens[0].prompt);
    const Reply first = client::finish(turns.get());
    client::append(turns.get(), goldens[1].prompt);
    const Reply second = client::finish(turns.get());

    std::vector<int32_t> all = goldens[0].prompt;
    all.insert(all.end(), first.tokens.begin(), first.tokens.end());
    all.insert(all.end(), goldens[1].prompt.begin(), goldens[1].prompt.end());
    const client::Session once = client::open(engine.get());
    client::append(once.get(), all);
    CHECK(client::finish(once.get()).tokens == second.tokens);
}

TEST_CASE("generate: the same seed gives the same text, another seed another") {
    const client::Engine engine = client::load();
    const auto prompt = kimi::test::golden_replies()[2].prompt;
    const auto sampled = [&](uint64_t seed) {
        kimi_session_options options = client::greedy();
        options.temperature = 1.5f;
        options.seed = seed;
        options.max_tokens = 40;
        options.flags = KIMI_IGNORE_STOP;
        const client::Session session = client::open(engine.get(), options);
        client::append(session.get(), prompt);
        return client::finish(session.get()).tokens;
    };
    const auto one = sampled(1);
    CHECK(sampled(1) == one);
    CHECK(sampled(2) != one);
}

TEST_CASE("generate: cancel ends the reply at the next step and is cleared by append") {
    const client::Engine engine = client::load();
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    options.max_tokens = 4;
    const client::Session session = client::open(engine.get(), options);
    kimi_session_cancel(session.get());  // idle: nothing happens
    client::append(session.get(), {300, 301});
    CHECK(client::step(session.get()).n_tokens == 1);
    kimi_session_cancel(session.get());
    const kimi_step s = client::step(session.get());
    CHECK(s.n_tokens == 0);
    CHECK(s.finish_reason == KIMI_FINISH_CANCELLED);
    CHECK(client::step(session.get()).finish_reason == KIMI_FINISH_CANCELLED);
    kimi_session_cancel(session.get());
    client::append(session.get(), {302});
    const Reply reply = client::finish(session.get());
    CHECK(reply.finish == KIMI_FINISH_LENGTH);
    CHECK(reply.tokens.size() == 4);
}

TEST_CASE("generate: a full KV cache is busy, and the reply goes on when pages are free again") {
    const kimi::test::TempDir dir;
    const client::Engine engine =
        client::load(plain_deployment(dir, R"(, "kv": {"capacity_tokens": 192})"));
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    options.max_tokens = 100;
    client::Session big = client::open(engine.get(), options);
    client::append(big.get(), std::vector<int32_t>(120, 300));
    client::step(big.get());
    const client::Session small = client::open(engine.get(), options);
    client::append(small.get(), std::vector<int32_t>(60, 300));
    std::vector<int32_t> tokens;
    kimi_step s;
    kimi_step_init(&s);
    client::ErrorRecord error;
    kimi_status status;
    while ((status = kimi_decode_step(small.get(), &s, &error)) == KIMI_OK)
        tokens.insert(tokens.end(), s.tokens, s.tokens + s.n_tokens);
    CHECK(status == KIMI_BUSY);
    CHECK(s.status == KIMI_BUSY);
    CHECK(s.finish_reason == KIMI_FINISH_NONE);
    CHECK(std::string(error.message) ==
          "the KV cache has 0 free pages of 3, 1 more are needed for 65 tokens");
    CHECK(tokens.size() == 5);
    big.reset();
    const Reply rest = client::finish(small.get());
    tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.begin() + 20);

    const client::Engine roomy = client::load();
    const client::Session alone = client::open(roomy.get(), options);
    client::append(alone.get(), std::vector<int32_t>(60, 300));
    const Reply reference = client::finish(alone.get());
    CHECK(std::vector<int32_t>(reference.tokens.begin(), reference.tokens.begin() + 25) == tokens);
}

TEST_CASE("generate: a batch gives each session what it gets alone") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    constexpr std::size_t kSessions = 5;
    std::vector<client::Session> sessions;
    std::vector<kimi_session *> batch;
    for (std::size_t i = 0; i < kSessions; ++i) {
        sessions.push_back(client::open(engine.get()));
        batch.push_back(sessions.back().get());
        client::append(batch.back(), goldens[i].prompt);
    }
    std::vector<std::vector<int32_t>> tokens(kSessions);
    std::vector<kimi_step> steps(kSessions);
    std::size_t n_finished = 0;
    while (n_finished < kSessions) {
        kimi_step_init(&steps[0]);
        REQUIRE(kimi_decode_batch(batch.data(), kSessions, steps.data(), nullptr) == KIMI_OK);
        n_finished = 0;
        for (std::size_t i = 0; i < kSessions; ++i) {
            tokens[i].insert(tokens[i].end(), steps[i].tokens, steps[i].tokens + steps[i].n_tokens);
            n_finished += steps[i].finish_reason != KIMI_FINISH_NONE;
        }
    }
    for (std::size_t i = 0; i < kSessions; ++i) CHECK(tokens[i] == goldens[i].tokens);
}

TEST_CASE("generate: sessions of one engine on several threads") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    std::atomic<int> n_equal{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
            const client::Session session = client::open(engine.get());
            client::append(session.get(), goldens[i].prompt);
            n_equal += client::finish(session.get()).tokens == goldens[i].tokens;
        });
    for (std::thread &thread : threads) thread.join();
    CHECK(n_equal == 4);
}

TEST_CASE("generate: destroy in any order; a session keeps its engine") {
    client::Engine engine = client::load();
    client::Session session = client::open(engine.get());
    engine.reset();
    client::append(session.get(), {300});
    CHECK(client::step(session.get()).n_tokens == 1);
    const client::Session held(kimi_session_retain(session.get()));
    session.reset();
    CHECK(client::step(held.get()).n_tokens == 1);
    kimi_engine_destroy(nullptr);
    kimi_session_destroy(nullptr);
    kimi_tokenizer_destroy(nullptr);
    kimi_session_cancel(nullptr);
    CHECK(kimi_session_retain(nullptr) == nullptr);
    CHECK(kimi_engine_tokenizer(nullptr) == nullptr);
}

TEST_CASE("generate: append_chat keeps what is common and drops what was edited") {
    const client::Engine engine = client::load();
    const auto chat = [](const std::string &messages) {
        return R"({"thinking": false, "messages": [)" + messages + "]}";
    };
    const std::string turn1 = R"({"role": "user", "content": "Good morning."})";
    const auto ask = [&](kimi_session *session, const std::string &messages) {
        const std::string json = chat(messages);
        REQUIRE(kimi_session_append_chat(session, json.data(), json.size(), nullptr) == KIMI_OK);
        return client::step(session);
    };
    const client::Session session = client::open(engine.get());
    kimi_step s = ask(session.get(), turn1);
    const uint64_t first_prompt = s.prompt_total;
    std::string reply(s.text, s.text_len);
    reply += client::finish(session.get()).text;

    const std::string turn2 = turn1 + R"(, {"role": "assistant", "content": ")" + reply +
                              R"("}, {"role": "user", "content": "What is 2 + 3?"})";
    const std::string json = chat(turn2);
    REQUIRE(kimi_session_append_chat(session.get(), json.data(), json.size(), nullptr) == KIMI_OK);
    kimi_step peek;
    kimi_step_init(&peek);
    REQUIRE(kimi_decode_step(session.get(), &peek, nullptr) == KIMI_OK);
    CHECK(peek.prompt_total > first_prompt);
    const Reply continued = client::finish(session.get());

    const client::Session fresh = client::open(engine.get());
    ask(fresh.get(), turn2);
    CHECK(client::finish(fresh.get()).tokens == continued.tokens);

    // The first turn again, edited at its end: a new reply to it.
    ask(session.get(), R"({"role": "user", "content": "Good evening."})");
    const Reply edited = client::finish(session.get());
    const client::Session other = client::open(engine.get());
    ask(other.get(), R"({"role": "user", "content": "Good evening."})");
    CHECK(client::finish(other.get()).tokens == edited.tokens);
}
