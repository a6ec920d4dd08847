#include "constraint/vocab_trie.h"

#include <algorithm>
#include <utility>

#include "constraint/pushdown_nfa.h"

namespace kimi {
namespace {

constexpr std::string_view kArgumentsToken = "<|tool_call_argument_begin|>";

}  // namespace

std::string_view VocabTrie::spelling(const Tokenizer &tokenizer, std::int32_t token) {
    static constexpr std::string_view kBegin(&kArgumentsBegin, 1);
    const std::string_view bytes = tokenizer.token_bytes(token);
    if (tokenizer.is_special(token)) return bytes == kArgumentsToken ? kBegin : "";
    return bytes.size() > kMaxBytes || bytes.find(kArgumentsBegin) != bytes.npos ? "" : bytes;
}

VocabTrie::VocabTrie(const Tokenizer &tokenizer) {
    std::vector<std::pair<std::string_view, std::int32_t>> tokens;
    for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
        const std::string_view bytes = spelling(tokenizer, id);
        if (!bytes.empty()) tokens.emplace_back(bytes, id);
    }
    std::sort(tokens.begin(), tokens.end());
    std::vector<std::uint32_t> path;  // nodes that are still open, by depth - 1
    const auto close = [&](std::size_t depth) {
        for (; path.size() > depth; path.pop_back())
            nodes[path.back()].end = static_cast<std::uint32_t>(nodes.size());
    };
    std::string_view before;
    for (const auto &[bytes, id] : tokens) {
        const auto differ = std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end());
        close(static_cast<std::size_t>(differ.first - before.begin()));
        for (std::size_t i = path.size(); i < bytes.size(); ++i) {
            path.push_back(static_cast<std::uint32_t>(nodes.size()));
            nodes.push_back({.depth = static_cast<std::uint16_t>(i + 1),
                             .byte = static_cast<std::uint8_t>(bytes[i])});
        }
        nodes.back().token = static_cast<std::uint32_t>(id);
        nodes.back().is_token = true;
        before = bytes;
        max_depth = std::max(max_depth, static_cast<std::uint32_t>(bytes.size()));
    }
    close(0);
}

}  // namespace kimi
