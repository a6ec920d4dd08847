// What kimi-chat should print, from libkimi itself.
#pragma once

#include <nlohmann/json.hpp>

#include "capi/client.h"

namespace chat {

struct ApiReply {
    std::string reasoning, answer;
    std::uint64_t prompt_tokens;
};

// The reply to a chat request, split at </think>.
inline ApiReply api_reply(kimi_engine *engine, const nlohmann::json &request,
                          const kimi_session_options &options = client::greedy()) {
    static const std::string kEnd = "</think>";
    const std::string json = request.dump();
    const client::Session session = client::open(engine, options);
    client::ErrorRecord error;
    const kimi_status status =
        kimi_session_append_chat(session.get(), json.data(), json.size(), &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
    const std::string text = client::finish(session.get()).text;
    const std::size_t end = text.find(kEnd);
    ApiReply reply;
    reply.prompt_tokens = client::step(session.get()).prompt_total;
    if (end != std::string::npos) reply.reasoning = text.substr(0, end);
    reply.answer = end == std::string::npos ? text : text.substr(end + kEnd.size());
    return reply;
}

inline nlohmann::json message(const std::string &role, const std::string &content) {
    return {{"role", role}, {"content", content}};
}

}  // namespace chat
