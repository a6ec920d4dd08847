// The chat JSON of the public interface, as text and as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace kimi {

// The exact text of the reference template, call ids verbatim. Throws KIMI_INVALID_ARGUMENT with
// the field, and KIMI_UNSUPPORTED for a tokenizer of another chat format.
std::string render_chat_request(const Tokenizer &tokenizer, std::string_view json);

struct ChatPrompt {
    std::vector<std::int32_t> tokens;
    std::vector<std::string> tools;  // the names of the functions that it declares
};

// The prompt: call ids in canonical form, specials only where the template put them. Throws the
// same, and KIMI_UNSUPPORTED for images and videos.
ChatPrompt encode_chat_request(const Tokenizer &tokenizer, std::string_view json);

}  // namespace kimi
