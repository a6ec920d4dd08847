// A vocabulary as a tree of bytes, laid out for walking it together with an automaton.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace kimi {

// Immutable, and so usable from any number of threads.
struct VocabTrie {
    // Longer tokens are left out.
    static constexpr std::uint32_t kMaxBytes = 256;

    struct Node {
        std::uint32_t token = 0;  // whose bytes end here
        std::uint32_t end = 0;    // behind the last node below
        std::uint16_t depth;      // bytes from the root, at least 1
        std::uint8_t byte;
        bool is_token = false;
    };

    // What a token adds to a constrained text: its bytes, of <|tool_call_argument_begin|>
    // kArgumentsBegin. Empty for tokens that it may not have: other special ones, and those of
    // bytes that no text has.
    static std::string_view spelling(const Tokenizer &tokenizer, std::int32_t token);

    explicit VocabTrie(const Tokenizer &tokenizer);

    std::vector<Node> nodes;  // parents before their children, subtrees in one piece
    std::uint32_t max_depth = 0;
};

}  // namespace kimi
