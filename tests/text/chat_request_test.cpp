#include "text/chat_request.h"

#include "text/fixtures.h"

using namespace kimi;

TEST_CASE("chat request: call ids are rendered verbatim but encoded in canonical form") {
    const std::string_view json = R"({"messages": [
        {"role": "assistant", "tool_calls": [{"id": "call_7", "function": {"name": "f",
                                              "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_7", "content": "r"}]})";
    std::string text = render_chat_request(test::k26(), json);
    for (const std::string_view part : {"<|tool_call_begin|>call_7<|", "## Return of call_7\n"})
        CHECK(test::contains(text, part));
    for (std::size_t at; (at = text.find("call_7")) != std::string::npos;)
        text.replace(at, 6, "functions.f:0");
    CHECK(test::k26().decode(encode_chat_request(test::k26(), json).tokens) == text);
}

TEST_CASE("chat request: the declared functions are named") {
    const auto tools = [](std::string_view json) {
        return encode_chat_request(test::k26(), json).tools;
    };
    CHECK(tools(R"({"messages": [], "tools": [
        {"type": "function", "function": {"name": "g", "parameters": {}}},
        {"type": "function", "function": {"name": "f", "parameters": {}}}]})") ==
          std::vector<std::string>{"g", "f"});
    CHECK(tools(R"({"messages": []})").empty());
}

TEST_CASE("chat request: media are rendered but not encoded") {
    const std::string_view json =
        R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})";
    CHECK(test::contains(render_chat_request(test::k26(), json), "<|media_pad|>"));
    CHECK(test::error_of([&] { encode_chat_request(test::k26(), json); }).status ==
          KIMI_UNSUPPORTED);
}

TEST_CASE("chat request: a tokenizer of another chat format is refused") {
    const test::TempDir dir;
    std::filesystem::copy(test::nano() + "/tiktoken.model", dir.path());
    dir.write("config.json", R"({"model_type": "kimi_k2"})");
    const Tokenizer tokenizer(dir.path());
    for (const auto &call : {test::error_of([&] { render_chat_request(tokenizer, "{}"); }),
                             test::error_of([&] { encode_chat_request(tokenizer, "{}"); })})
        CHECK(call.status == KIMI_UNSUPPORTED);
}
