// Sessions on nano-k2 that differ in everything that may differ inside one pass.
#pragma once

#include <memory>
#include <vector>

#include "check.h"
#include "engine/engine.h"
#include "engine/session_file.h"

namespace kimi::test {

inline std::shared_ptr<Engine> nano_engine() {
    return std::make_shared<Engine>(nano() + "/deployment.json", Progress());
}

inline std::vector<std::int32_t> some_tokens(std::size_t n, std::uint32_t seed) {
    std::vector<std::int32_t> tokens(n);
    for (std::int32_t &token : tokens) {
        seed = seed * 1664525 + 1013904223;
        token = static_cast<std::int32_t>((seed >> 8) % 4000);
    }
    return tokens;
}

inline SessionOptions plain_greedy(std::uint32_t max_tokens) {
    SessionOptions options;
    options.sampling.temperature = 0;
    options.draft_budget = 0;
    options.max_tokens = max_tokens;
    options.ignore_stop = true;
    return options;
}

// Prompts of 1 to 70 tokens; plain, chain, tree and automatic drafting; greedy and
// sampled; replies of 6 to 9 tokens.
inline std::unique_ptr<Session> varied_session(const std::shared_ptr<Engine> &engine,
                                               std::uint32_t i) {
    constexpr std::uint32_t kBudgets[] = {0, 7, 16, KIMI_AUTO, 63};
    SessionOptions options = plain_greedy(6 + i / 4);
    options.sampling.seed = i;
    options.sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    options.draft_budget = kBudgets[i % 5];
    options.draft_chain = i % 3 == 1;
    auto session = std::make_unique<Session>(engine, options);
    session->append(some_tokens(1 + 9 * (i % 7) + i, i));
    return session;
}

inline void step(Session &session) {
    Session *batch[] = {&session};
    session.engine().step(batch);
}

inline void finish_prompt(Session &session) {
    while (session.result().phase == KIMI_PHASE_PREFILL) step(session);
}

// The reply, stepped alone.
inline std::vector<std::int32_t> finish(Session &session) {
    std::vector<std::int32_t> reply;
    while (session.result().phase != KIMI_PHASE_FINISHED) {
        step(session);
        REQUIRE(session.result().status == KIMI_OK);
        reply.insert(reply.end(), session.committed().begin(), session.committed().end());
    }
    return reply;
}

inline std::vector<std::byte> save(Session &session) {
    std::vector<std::byte> out;
    save_session(session, [&](const void *data, std::size_t n) {
        const auto *bytes = static_cast<const std::byte *>(data);
        out.insert(out.end(), bytes, bytes + n);
    });
    return out;
}

}  // namespace kimi::test
