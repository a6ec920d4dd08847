// K2.6's chat template.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/chat.h"
#include "text/tokenizer.h"

namespace kimi {

// A special token that the template put there, or text, which never becomes one.
struct Segment {
    bool special;
    std::string text;
};

// The prompt of a conversation. No two neighbours are both text.
std::vector<Segment> render_chat(const Chat &chat);

// The text of a prompt: exactly that of the reference template.
std::string text_of(const std::vector<Segment> &segments);

// Throws KIMI_UNSUPPORTED where the tokenizer lacks one of the special tokens. hard_cuts() count
// from the begin of each segment.
std::vector<std::int32_t> encode_segments(const Tokenizer &tokenizer,
                                          const std::vector<Segment> &segments);

}  // namespace kimi
