// A conversation, as the chat JSON of kimi.h describes it.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace kimi {

struct ContentPart {
    enum class Kind { text, image, video };
    Kind kind = Kind::text;
    std::string text;
};

struct ToolCall {
    std::string id;    // empty where the request has none
    std::string name;  // likewise
    std::string arguments;
};

struct Message {
    std::string role;
    std::string name;  // empty where the request has none
    std::vector<ContentPart> content;
    // Of an assistant:
    std::string reasoning;
    std::vector<ToolCall> tool_calls;
    // Of a tool:
    std::string tool_call_id;
};

struct Chat {
    std::vector<Message> messages;
    Json tools;  // an array of objects, or null
    bool thinking = true;
    bool preserve_thinking = false;
    bool add_generation_prompt = true;

    bool has_media() const;
};

// Throws KIMI_INVALID_ARGUMENT with the field, such as messages[2].content. A field that is null is
// absent. Options are also found in chat_template_kwargs, as servers spell them.
Chat parse_chat(const Json &json);

}  // namespace kimi
