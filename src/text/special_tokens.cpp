#include "text/special_tokens.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace kimi {
namespace {

constexpr std::pair<int, std::string_view> kK26Names[] = {
    {0, "[BOS]"},
    {1, "[EOS]"},
    {2, "<|im_end|>"},
    {3, "<|im_user|>"},
    {4, "<|im_assistant|>"},
    {6, "<|start_header_id|>"},
    {7, "<|end_header_id|>"},
    {9, "[EOT]"},
    {10, "<|im_system|>"},
    {11, "<|tool_calls_section_begin|>"},
    {12, "<|tool_calls_section_end|>"},
    {13, "<|tool_call_begin|>"},
    {14, "<|tool_call_argument_begin|>"},
    {15, "<|tool_call_end|>"},
    {17, "<|im_middle|>"},
    {18, "<|media_begin|>"},
    {19, "<|media_content|>"},
    {20, "<|media_end|>"},
    {21, "<|media_pad|>"},
    {22, "<think>"},
    {23, "</think>"},
    {254, "[UNK]"},
    {255, "[PAD]"},
};

}  // namespace

SpecialTokens::SpecialTokens(std::int32_t first, const Json *added, std::string_view what)
    : first_(first), names_(kCount) {
    if (added != nullptr) {
        read_names(*added, what);
    } else {
        for (const auto &[offset, name] : kK26Names) names_[offset] = name;
    }
    for (int i = 0; i < kCount; ++i)
        if (names_[i].empty()) names_[i] = cat("<|reserved_token_", first + i, "|>");
    index_names(what);
    for (const auto &[offset, name] : kK26Names) {
        const auto id = find(name);
        if (id && *id != first + offset)
            fail(KIMI_CORRUPT, what, ": ", name, " is token ", *id, ", expected ", first + offset);
    }
}

void SpecialTokens::read_names(const Json &added, std::string_view what) {
    if (!added.is(Json::Kind::object))
        fail(KIMI_CORRUPT, what, ": added_tokens_decoder: expected an object, found ",
             kind_name(added.kind));
    for (const auto &[key, token] : added.members) {
        std::int32_t id = -1;
        const char *end = key.data() + key.size();
        const bool number = std::from_chars(key.data(), end, id).ptr == end && !key.empty();
        if (!number || !contains(id))
            fail(KIMI_CORRUPT, what, ": added_tokens_decoder: token \"", key,
                 "\" is not one of the special tokens ", first_, " to ", first_ + kCount - 1);
        const Json *content = token.find("content");
        if (content == nullptr || !content->is(Json::Kind::string) || content->text.empty())
            fail(KIMI_CORRUPT, what, ": added_tokens_decoder.", key,
                 ".content: expected a string that is not empty");
        names_[static_cast<std::size_t>(id - first_)] = content->text;
    }
}

void SpecialTokens::index_names(std::string_view what) {
    sorted_.resize(names_.size());
    std::iota(sorted_.begin(), sorted_.end(), std::size_t{0});
    std::sort(sorted_.begin(), sorted_.end(),
              [&](std::size_t a, std::size_t b) { return names_[a] < names_[b]; });
    for (std::size_t i = 0; i < sorted_.size(); ++i) {
        if (i > 0 && name_at(i) == name_at(i - 1))
            fail(KIMI_CORRUPT, what, ": two special tokens are called ", name_at(i));
        shorter_.push_back(longest_prefix(name_at(i), i));
        initial_[static_cast<unsigned char>(name_at(i)[0])] = true;
    }
}

// Of the names before place `end`, all of them <= text and none between them and text: 1 + the
// place of the longest that text begins with, or 0. Such a name begins the names between it and
// text too, so following shorter_ from the last one meets it.
std::size_t SpecialTokens::longest_prefix(std::string_view text, std::size_t end) const {
    while (end > 0 && !text.starts_with(name_at(end - 1))) end = shorter_[end - 1];
    return end;
}

std::optional<std::int32_t> SpecialTokens::find(std::string_view name) const {
    const auto match = search(name, 0);
    if (!match || match->size != name.size()) return std::nullopt;
    return match->id;
}

bool SpecialTokens::complete() const {
    return std::all_of(std::begin(kK26Names), std::end(kK26Names),
                       [&](const auto &known) { return names_[known.first] == known.second; });
}

std::optional<SpecialTokens::Match> SpecialTokens::search(std::string_view text,
                                                          std::size_t from) const {
    for (std::size_t i = from; i < text.size(); ++i) {
        if (!initial_[static_cast<unsigned char>(text[i])]) continue;
        const std::string_view rest = text.substr(i);
        const auto above = std::upper_bound(
            sorted_.begin(), sorted_.end(), rest,
            [&](std::string_view t, std::size_t place) { return t < names_[place]; });
        const std::size_t end =
            longest_prefix(rest, static_cast<std::size_t>(above - sorted_.begin()));
        if (end > 0)
            return Match{i, name_at(end - 1).size(),
                         first_ + static_cast<std::int32_t>(sorted_[end - 1])};
    }
    return std::nullopt;
}

}  // namespace kimi
