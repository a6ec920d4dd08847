#include "text/chat.h"

#include "check.h"

using namespace kimi;

namespace {

Chat parse(std::string_view json) {
    return parse_chat(parse_json(json, "test"));
}

Chat with_message(std::string_view message) {
    return parse(cat(R"({"messages": [)", message, "]}"));
}

std::string error_of_chat(std::string_view json) {
    const Error error = test::error_of([&] { parse(json); });
    CHECK(error.status == KIMI_INVALID_ARGUMENT);
    return error.text;
}

}  // namespace

TEST_CASE("chat: options have their defaults, aliases and places") {
    const auto options = [](std::string_view members) {
        const Chat chat = parse(cat(R"({"messages": [])", members, "}"));
        return std::array{chat.thinking, chat.preserve_thinking, chat.add_generation_prompt};
    };
    CHECK(options("") == std::array{true, false, true});
    CHECK(options(R"(, "thinking": null, "tools": null)") == std::array{true, false, true});
    CHECK(options(R"(, "thinking": false, "preserve_thinking": true)") ==
          std::array{false, true, true});
    CHECK(options(R"(, "add_generation_prompt": false)") == std::array{true, false, false});
    CHECK(options(R"(, "enable_thinking": false)") == std::array{false, false, true});
    CHECK(options(R"(, "thinking": true, "enable_thinking": false)") ==
          std::array{true, false, true});
    CHECK(options(R"(, "thinking": {"type": "disabled"})") == std::array{false, false, true});
    CHECK(options(R"(, "thinking": {"type": "enabled", "keep": "all"})") ==
          std::array{true, true, true});
    CHECK(options(R"(, "chat_template_kwargs": {"thinking": false, "preserve_thinking": true})") ==
          std::array{false, true, true});
    CHECK(options(R"(, "thinking": true, "chat_template_kwargs": {"thinking": false})") ==
          std::array{true, false, true});
}

TEST_CASE("chat: messages keep what the template shows and ignore the rest") {
    const Message message =
        with_message(R"({"role": "assistant", "name": "k", "content": "c", "audio": 5,
            "reasoning": null, "reasoning_content": "r", "tool_call_id": 5,
            "tool_calls": [{"id": "x", "type": "function", "index": 0,
                            "function": {"name": "f", "arguments": {"a": [1, "é"]}}}]})")
            .messages[0];
    CHECK(message.role == "assistant");
    CHECK(message.name == "k");
    CHECK(message.reasoning == "r");
    REQUIRE(message.tool_calls.size() == 1);
    CHECK(message.tool_calls[0].id == "x");
    CHECK(message.tool_calls[0].name == "f");
    CHECK(message.tool_calls[0].arguments == R"({"a": [1, "é"]})");
    CHECK(with_message(R"({"role": "assistant", "reasoning": "a", "reasoning_content": "b"})")
              .messages[0]
              .reasoning == "a");
    CHECK(with_message(R"({"role": "user", "reasoning": 5, "tool_calls": 5})").messages.size() ==
          1);
}

TEST_CASE("chat: images and videos are seen") {
    CHECK_FALSE(with_message(R"({"role": "user", "content": [{"text": "a"}]})").has_media());
    for (const char *type : {"image", "image_url", "video", "video_url"})
        CHECK(with_message(
                  cat(R"({"role": "user", "content": [{"text": "a"}, {"type": ")", type, R"("}]})"))
                  .has_media());
}

TEST_CASE("chat: a wrong type is named by its field") {
    CHECK(error_of_chat("[]") == "chat: expected an object, found an array");
    CHECK(error_of_chat("{}") == "messages: expected an array, found nothing");
    CHECK(error_of_chat(R"({"messages": {}})") == "messages: expected an array, found an object");
    CHECK(error_of_chat(R"({"messages": [], "tools": {}})") ==
          "tools: expected an array, found an object");
    CHECK(error_of_chat(R"({"messages": [], "tools": [{}, 1]})") ==
          "tools[1]: expected an object, found an integer");
    CHECK(error_of_chat(R"({"messages": [], "thinking": "no"})") ==
          "thinking: expected a boolean or an object with a type, found a string");
    CHECK(error_of_chat(R"({"messages": [], "thinking": {"type": "x"}})") ==
          "thinking.type: expected \"enabled\" or \"disabled\", found \"x\"");
    CHECK(error_of_chat(R"({"messages": [], "chat_template_kwargs": {"thinking": 1}})") ==
          "chat_template_kwargs.thinking: expected a boolean or an object with a type, "
          "found an integer");
    CHECK(error_of_chat(R"({"messages": [], "preserve_thinking": 1})") ==
          "preserve_thinking: expected a boolean, found an integer");

    const std::pair<const char *, const char *> messages[] = {
        {"5", ": expected an object, found an integer"},
        {"{}", ".role: expected a string, found nothing"},
        {R"({"role": 5})", ".role: expected a string, found an integer"},
        {R"({"role": "user", "name": []})", ".name: expected a string, found an array"},
        {R"({"role": "user", "content": {}})",
         ".content: expected a string, an array of parts or null, found an object"},
        {R"({"role": "user", "content": ["a"]})",
         ".content[0]: expected an object, found a string"},
        {R"({"role": "user", "content": [{"text": "a"}, {"type": "audio"}]})",
         ".content[1].text: expected a string, found nothing"},
        {R"({"role": "assistant", "reasoning": []})",
         ".reasoning: expected a string, found an array"},
        {R"({"role": "assistant", "tool_calls": {}})",
         ".tool_calls: expected an array, found an object"},
        {R"({"role": "assistant", "tool_calls": [1]})",
         ".tool_calls[0]: expected an object, found an integer"},
        {R"({"role": "assistant", "tool_calls": [{"id": "x"}]})",
         ".tool_calls[0].function: expected an object, found nothing"},
        {R"({"role": "assistant", "tool_calls": [{"function": {"arguments": 1}}]})",
         ".tool_calls[0].function.arguments: expected a string or an object, found an integer"},
        {R"({"role": "assistant", "tool_calls": [{"id": 1, "function": {"arguments": ""}}]})",
         ".tool_calls[0].id: expected a string, found an integer"},
        {R"({"role": "tool", "tool_call_id": 1})",
         ".tool_call_id: expected a string, found an integer"},
    };
    for (const auto &[message, error] : messages)
        CHECK(error_of_chat(cat(R"({"messages": [{"role": "user"}, )", message, "]}")) ==
              cat("messages[1]", error));
}
