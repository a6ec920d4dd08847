// The reference's greedy continuations of nano-k2.
#pragma once

#include "check.h"

namespace kimi::test {

struct GoldenReply {
    std::string name, text, reply;
    std::vector<std::int32_t> prompt, tokens;
    std::uint32_t limit;

    std::uint32_t finish() const {
        return contains(reply, "<|tool_call_end|>") ? KIMI_FINISH_TOOL_CALLS : KIMI_FINISH_STOP;
    }
};

inline std::vector<GoldenReply> golden_replies() {
    std::vector<GoldenReply> out;
    const auto ids = [](const Json &array) {
        std::vector<std::int32_t> tokens;
        for (const Json &item : array.items) tokens.push_back(static_cast<std::int32_t>(item.real));
        return tokens;
    };
    for (const Json &c : read_json(data("nano-k2/generate.json")).items)
        out.push_back({c.find("name")->text, c.find("text")->text, c.find("reply")->text,
                       ids(*c.find("prompt")), ids(*c.find("tokens")),
                       static_cast<std::uint32_t>(c.find("limit")->real)});
    REQUIRE(!out.empty());
    return out;
}

}  // namespace kimi::test
