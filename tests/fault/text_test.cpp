// Tokenizers and chats, with every request to the system failing in turn.
#include "fault/subject.h"

using namespace kimi::test;

TEST_CASE("fault: text") {
    const Model model;
    const Balance balance;
    const std::string folder = model.dir.path();
    kimi_tokenizer *tokenizer = nullptr;
    fail_each({"kimi_tokenizer_create", [&] { tokenizer = reinterpret_cast<kimi_tokenizer *>(1); },
               [&](auto *e) { return kimi_tokenizer_create(folder.c_str(), &tokenizer, e); },
               [&] { CHECK(tokenizer == nullptr); }, [&] { kimi_tokenizer_destroy(tokenizer); }});
    REQUIRE(kimi_tokenizer_create(folder.c_str(), &tokenizer, nullptr) == KIMI_OK);
    const client::Tokenizer owner(tokenizer);

    const std::string text = "Hello <|im_end|> world";
    std::vector<int32_t> tokens;
    size_t n = 0;
    fail_each({"kimi_tokenize", [&] { tokens.assign(100, -1); },
               [&](auto *e) {
                   return kimi_tokenize(tokenizer, text.data(), text.size(), KIMI_SPECIALS,
                                        tokens.data(), tokens.size(), &n, e);
               },
               [&] { CHECK(tokens == std::vector<int32_t>(100, -1)); },
               [&] { CHECK(n == text.size() - 9); }});
    tokens.resize(n);
    std::string back;
    fail_each({"kimi_detokenize", [&] { back.assign(100, '?'); },
               [&](auto *e) {
                   return kimi_detokenize(tokenizer, tokens.data(), tokens.size(), back.data(),
                                          back.size(), &n, e);
               },
               [&] { CHECK(back == std::string(100, '?')); },
               [&] { CHECK(back.substr(0, n) == text); }});
    const std::string chat =
        R"({"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function",
            "function": {"name": "f", "parameters": {"type": "object"}}}]})";
    std::string rendered(4000, '\0'), expected;
    fail_each({"kimi_chat_render", [] {},
               [&](auto *e) {
                   return kimi_chat_render(tokenizer, chat.data(), chat.size(), rendered.data(),
                                           rendered.size(), &n, e);
               },
               [] {},
               [&] {
                   if (expected.empty()) expected = rendered.substr(0, n);
                   CHECK(rendered.substr(0, n) == expected);
               }});
}
