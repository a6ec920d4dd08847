// A client of libkimi.so for tests: the public header and nothing else.
#pragma once

#include <doctest/doctest.h>
#include <kimi/kimi.h>

#include <memory>
#include <string>
#include <vector>

namespace client {

inline std::string nano() {
    return KIMI_MODELS "/nano-k2/deployment.json";
}

struct Destroy {
    void operator()(kimi_engine *engine) const { kimi_engine_destroy(engine); }
    void operator()(kimi_session *session) const { kimi_session_destroy(session); }
    void operator()(kimi_tokenizer *tokenizer) const { kimi_tokenizer_destroy(tokenizer); }
};
using Engine = std::unique_ptr<kimi_engine, Destroy>;
using Session = std::unique_ptr<kimi_session, Destroy>;
using Tokenizer = std::unique_ptr<kimi_tokenizer, Destroy>;

struct ErrorRecord : kimi_error {
    ErrorRecord() { kimi_error_init(static_cast<kimi_error *>(this)); }
};

inline Engine load(const std::string &deployment = nano()) {
    kimi_engine_options options;
    kimi_engine_options_init(&options);
    options.deployment = deployment.c_str();
    kimi_engine *engine = nullptr;
    ErrorRecord error;
    const kimi_status status = kimi_engine_create(&options, &engine, &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
    return Engine(engine);
}

inline kimi_engine_statistics statistics(kimi_engine *engine) {
    kimi_engine_statistics stats;
    kimi_engine_statistics_init(&stats);
    REQUIRE(kimi_engine_stats(engine, &stats, nullptr) == KIMI_OK);
    return stats;
}

inline kimi_session_options greedy() {
    kimi_session_options options;
    kimi_session_options_init(&options);
    options.temperature = 0;
    return options;
}

// Its replies end at no stop token.
inline kimi_session_options endless() {
    kimi_session_options options = greedy();
    options.flags = KIMI_IGNORE_STOP;
    return options;
}

inline Session open(kimi_engine *engine, const kimi_session_options &options = greedy()) {
    kimi_session *session = nullptr;
    REQUIRE(kimi_session_create(engine, &options, &session, nullptr) == KIMI_OK);
    return Session(session);
}

inline void append(kimi_session *session, const std::vector<int32_t> &tokens) {
    ErrorRecord error;
    const kimi_status status = kimi_session_append(session, tokens.data(), tokens.size(), &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
}

inline kimi_step step(kimi_session *session) {
    kimi_step step;
    kimi_step_init(&step);
    ErrorRecord error;
    const kimi_status status = kimi_decode_step(session, &step, &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
    return step;
}

struct Reply {
    std::vector<int32_t> tokens;
    std::string text;
    std::vector<size_t> steps;  // tokens committed by each step that committed any
    uint32_t finish = KIMI_FINISH_NONE;
};

// Steps until the reply ends.
inline Reply finish(kimi_session *session) {
    Reply reply;
    while (reply.finish == KIMI_FINISH_NONE) {
        const kimi_step s = step(session);
        reply.tokens.insert(reply.tokens.end(), s.tokens, s.tokens + s.n_tokens);
        reply.text.append(s.text, s.text_len);
        if (s.n_tokens > 0) reply.steps.push_back(s.n_tokens);
        reply.finish = s.finish_reason;
    }
    return reply;
}

}  // namespace client
