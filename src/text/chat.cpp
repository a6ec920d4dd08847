#include "text/chat.h"

#include <algorithm>

#include "base/error.h"

namespace kimi {
namespace {

using Kind = Json::Kind;

// A value and where it stands, for messages.
struct Field {
    const Json *json;  // null where absent
    std::string path;

    explicit operator bool() const { return json != nullptr; }

    [[noreturn]] void refuse(std::string_view expected) const {
        fail(KIMI_INVALID_ARGUMENT, path, ": expected ", expected, ", found ",
             json == nullptr ? "nothing" : kind_name(json->kind));
    }
    const Json &expect(Kind kind) const {
        if (json == nullptr || !json->is(kind)) refuse(kind_name(kind));
        return *json;
    }
    Field member(std::string_view key) const {
        const Json *value = json->find(key);
        if (value != nullptr && value->is(Kind::null)) value = nullptr;
        return {value, path.empty() ? std::string(key) : cat(path, ".", key)};
    }
    std::vector<Field> items() const {
        std::vector<Field> fields;
        if (json == nullptr) return fields;
        for (const Json &item : expect(Kind::array).items)
            fields.push_back({&item, cat(path, "[", fields.size(), "]")});
        return fields;
    }
    std::string string() const { return expect(Kind::string).text; }
    std::string string_or_empty() const { return json == nullptr ? "" : string(); }
    bool boolean_or(bool absent) const {
        return json == nullptr ? absent : expect(Kind::boolean).boolean;
    }
};

ContentPart parse_part(const Field &part) {
    part.expect(Kind::object);
    const std::string type = part.member("type").string_or_empty();
    if (type == "image" || type == "image_url") return {ContentPart::Kind::image, {}};
    if (type == "video" || type == "video_url") return {ContentPart::Kind::video, {}};
    return {ContentPart::Kind::text, part.member("text").string()};
}

std::vector<ContentPart> parse_content(const Field &content) {
    if (!content) return {};
    if (content.json->is(Kind::string)) return {{ContentPart::Kind::text, content.json->text}};
    if (!content.json->is(Kind::array)) content.refuse("a string, an array of parts or null");
    std::vector<ContentPart> parts;
    for (const Field &part : content.items()) parts.push_back(parse_part(part));
    return parts;
}

ToolCall parse_call(const Field &call) {
    call.expect(Kind::object);
    const Field function = call.member("function");
    function.expect(Kind::object);
    const Field arguments = function.member("arguments");
    ToolCall parsed{
        call.member("id").string_or_empty(), function.member("name").string_or_empty(), {}};
    if (arguments && arguments.json->is(Kind::string)) {
        parsed.arguments = arguments.json->text;
    } else if (arguments && arguments.json->is(Kind::object)) {
        parsed.arguments = dump_json(*arguments.json);
    } else {
        arguments.refuse("a string or an object");
    }
    return parsed;
}

Message parse_message(const Field &message) {
    message.expect(Kind::object);
    Message parsed{.role = message.member("role").string(),
                   .name = message.member("name").string_or_empty(),
                   .content = parse_content(message.member("content"))};
    if (parsed.role == "assistant") {
        const Field reasoning = message.member("reasoning");
        parsed.reasoning =
            (reasoning ? reasoning : message.member("reasoning_content")).string_or_empty();
        for (const Field &call : message.member("tool_calls").items())
            parsed.tool_calls.push_back(parse_call(call));
    } else if (parsed.role == "tool") {
        parsed.tool_call_id = message.member("tool_call_id").string_or_empty();
    }
    return parsed;
}

// thinking is a boolean or, as in Moonshot's own API, {"type": "enabled", "keep": "all"}.
void parse_thinking(const Field &thinking, Chat &chat) {
    if (!thinking) return;
    if (thinking.json->is(Kind::boolean)) {
        chat.thinking = thinking.json->boolean;
        return;
    }
    if (!thinking.json->is(Kind::object)) thinking.refuse("a boolean or an object with a type");
    const std::string type = thinking.member("type").string();
    if (type != "enabled" && type != "disabled")
        fail(KIMI_INVALID_ARGUMENT, thinking.path,
             ".type: expected \"enabled\" or \"disabled\", found \"", type, "\"");
    chat.thinking = type == "enabled";
    chat.preserve_thinking = thinking.member("keep").string_or_empty() == "all";
}

}  // namespace

bool Chat::has_media() const {
    const auto is_media = [](const ContentPart &part) {
        return part.kind != ContentPart::Kind::text;
    };
    return std::any_of(messages.begin(), messages.end(), [&](const Message &message) {
        return std::any_of(message.content.begin(), message.content.end(), is_media);
    });
}

Chat parse_chat(const Json &json) {
    const Field root{&json, {}};
    if (!json.is(Kind::object))
        fail(KIMI_INVALID_ARGUMENT, "chat: expected an object, found ", kind_name(json.kind));
    const Field kwargs = root.member("chat_template_kwargs");
    if (kwargs) kwargs.expect(Kind::object);
    const auto option = [&](std::string_view key) {
        const Field own = root.member(key);
        return own || !kwargs ? own : kwargs.member(key);
    };
    Chat chat;
    root.member("messages").expect(Kind::array);
    for (const Field &message : root.member("messages").items())
        chat.messages.push_back(parse_message(message));
    for (const Field &tool : root.member("tools").items()) tool.expect(Kind::object);
    if (const Field tools = root.member("tools")) chat.tools = *tools.json;
    const Field thinking = option("thinking");
    parse_thinking(thinking ? thinking : option("enable_thinking"), chat);
    chat.preserve_thinking = option("preserve_thinking").boolean_or(chat.preserve_thinking);
    chat.add_generation_prompt = option("add_generation_prompt").boolean_or(true);
    return chat;
}

}  // namespace kimi
