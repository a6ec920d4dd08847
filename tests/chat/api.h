// What kimi-chat should print, from libkimi itself.
#pragma once

#include <nlohmann/json.hpp>

#include "capi/client.h"

namespace chat {

struct ApiReply {
    std::string reasoning, answer;
    std::uint64_t prompt_tokens;
};

// The reply to a chat request.
inline ApiReply api_reply(kimi_engine *engine, const nlohmann::json &request,
                          const kimi_session_options &options = client::greedy()) {
    const std::string json = request.dump();
    const client::Session session = client::open(engine, options);
    client::ErrorRecord error;
    const kimi_status status =
        kimi_session_append_chat(session.get(), json.data(), json.size(), &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
    ApiReply reply{};
    kimi_event event;
    kimi_event_init(&event);
    while (event.kind != KIMI_EVENT_FINISHED) {
        REQUIRE(kimi_session_next_event(session.get(), 0, &event, nullptr) == KIMI_OK);
        if (event.kind == KIMI_EVENT_REASONING) reply.reasoning.append(event.text, event.text_len);
        if (event.kind == KIMI_EVENT_CONTENT) reply.answer.append(event.text, event.text_len);
    }
    reply.prompt_tokens = event.prompt_tokens;
    return reply;
}

inline nlohmann::json message(const std::string &role, const std::string &content) {
    return {{"role", role}, {"content", content}};
}

}  // namespace chat
