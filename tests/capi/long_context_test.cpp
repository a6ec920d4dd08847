// A prompt of 8,000 tokens for real: progress, cancel, and the same text whatever the chunk.
#include "capi/client.h"
#include "capi/goldens.h"

using kimi::test::TempDir;

namespace {

constexpr std::size_t kTokens = 8192;

// The goldens' conversations, one after the other, as often as it takes.
std::vector<int32_t> long_conversation() {
    std::vector<int32_t> prompt;
    while (prompt.size() < kTokens)
        for (const auto &golden : kimi::test::golden_replies()) {
            prompt.insert(prompt.end(), golden.prompt.begin(), golden.prompt.end());
            prompt.insert(prompt.end(), golden.tokens.begin(), golden.tokens.end());
        }
    const auto last = kimi::test::golden_replies()[0].prompt;
    prompt.insert(prompt.end(), last.begin(), last.end());
    return prompt;
}

client::Engine engine_with_chunk(const TempDir &dir, const std::string &chunk) {
    return client::load(dir.write(
        "d.json", "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\", \"drafter\": \"" KIMI_MODELS
                  "/nano-k2/drafter\", \"context_limit\": 12000, \"prefill_chunk\": " +
                      chunk + "}"));
}

kimi_session_options options(uint32_t draft_budget) {
    kimi_session_options o = client::greedy();
    o.draft_budget = draft_budget;
    o.flags = KIMI_IGNORE_STOP;
    o.max_tokens = 60;
    return o;
}

}  // namespace

TEST_CASE("long context: 8,000 tokens with progress and cancel, in chunks of any size" *
          doctest::test_suite("slow")) {
    const TempDir dir;
    const std::vector<int32_t> prompt = long_conversation();
    const client::Engine engine = engine_with_chunk(dir, "256");
    const client::Session session = client::open(engine.get(), options(8));
    client::append(session.get(), prompt);
    uint64_t done = 0;
    while (done < prompt.size() / 2) {
        const kimi_step s = client::step(session.get());
        CHECK(s.phase == KIMI_PHASE_PREFILL);
        CHECK(s.prompt_total == prompt.size());
        CHECK(s.prompt_done == done + 256);
        done = s.prompt_done;
    }
    kimi_session_cancel(session.get());
    CHECK(client::step(session.get()).finish_reason == KIMI_FINISH_CANCELLED);
    // What was processed stays, and the rest of the prompt is still to come.
    const int32_t more = 321;
    client::append(session.get(), {more});
    const client::Reply reply = client::finish(session.get());
    REQUIRE(reply.tokens.size() == 60);

    const client::Engine other = engine_with_chunk(dir, "1000");
    const client::Session plain = client::open(other.get(), options(0));
    std::vector<int32_t> whole = prompt;
    whole.push_back(more);
    client::append(plain.get(), whole);
    CHECK(client::finish(plain.get()).tokens == reply.tokens);
}
