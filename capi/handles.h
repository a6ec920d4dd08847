// The objects behind the public handles.
#pragma once

#include <atomic>
#include <memory>

#include "engine/background_step.h"
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

namespace kimi::capi {
// Who has a session to itself: nobody, a call, or a step in the background.
enum class Use : std::uint8_t { free, call, background };
}  // namespace kimi::capi

struct kimi_session {
    explicit kimi_session(std::unique_ptr<kimi::Session> s)
        : session(std::move(s)), background(session->engine().queue(), *session) {}

    std::atomic<std::uint32_t> holders{1};
    std::atomic<kimi::capi::Use> use{kimi::capi::Use::free};
    std::uint64_t length_before_step = 0;  // of a step in the background
    std::unique_ptr<kimi::Session> session;
    kimi::BackgroundStep background;
};
