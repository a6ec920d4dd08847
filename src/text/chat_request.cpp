#include "text/chat_request.h"

#include "base/error.h"
#include "text/call_ids.h"
#include "text/chat.h"
#include "text/chat_template.h"
#include "text/output_parser.h"

namespace kimi {
namespace {

Chat read_chat(const Tokenizer &tokenizer, std::string_view json) {
    if (!tokenizer.supports_chat())
        fail(KIMI_UNSUPPORTED, "this checkpoint's chat format is not that of Kimi K2.5 and K2.6");
    return parse_chat(parse_json(json, "json"));
}

}  // namespace

std::string render_chat_request(const Tokenizer &tokenizer, std::string_view json) {
    return text_of(render_chat(read_chat(tokenizer, json)));
}

ChatPrompt encode_chat_request(const Tokenizer &tokenizer, std::string_view json) {
    Chat chat = read_chat(tokenizer, json);
    if (chat.has_media())
        fail(KIMI_UNSUPPORTED, "images and videos are rendered, but not processed");
    canonicalize_call_ids(chat);
    return {encode_segments(tokenizer, render_chat(chat)), tool_names(chat.tools)};
}

}  // namespace kimi
