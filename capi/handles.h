// The objects behind the public handles.
#pragma once

#include <atomic>
#include <memory>

#include "engine/engine.h"
#include "engine/session.h"
#include "kimi/kimi.h"
#include "text/tokenizer.h"

struct kimi_tokenizer {
    std::shared_ptr<const kimi::Tokenizer> tokenizer;
};

struct kimi_engine {
    std::shared_ptr<kimi::Engine> engine;
    kimi_tokenizer tokenizer;
};

struct kimi_session {
    explicit kimi_session(std::unique_ptr<kimi::Session> s) : session(std::move(s)) {}

    std::atomic<std::uint32_t> holders{1};
    std::atomic<bool> in_use{false};
    std::unique_ptr<kimi::Session> session;
};
