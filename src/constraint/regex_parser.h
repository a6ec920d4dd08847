// The syntax of regular expressions: ECMAScript's, as far as it describes regular languages.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "constraint/char_set.h"

namespace kimi {

struct RegexNode {
    static constexpr std::uint32_t kUnlimited = UINT32_MAX;

    enum class Kind : std::uint8_t { chars, sequence, choice, repeat };
    Kind kind = Kind::sequence;
    CharSet chars;                 // of chars: one of these
    std::vector<RegexNode> parts;  // repeat has one
    std::uint32_t min = 1, max = 1;
};

enum class Anchoring {
    whole,   // the expression describes the whole text; ^ and $ may say so
    search,  // the text contains a match; ^ and $ bind it to the text's ends
};

// Characters, . (any but line ends), [...], [^...], \d \w \s (ASCII) and \D \W \S, \t \n \v \f \r
// \0 \cX \xHH \uXXXX \u{X}, escaped punctuation; (...), (?:...), (?<name>...); |; * + ? {m} {m,}
// {m,n}, lazy or not, m and n up to 65535; ^ at the beginning and $ at the end of an alternative
// that is not in a group. A { that begins no such count is a character, and so are ] and }. Throws
// KIMI_INVALID_ARGUMENT with `what`, the byte and the reason, and KIMI_UNSUPPORTED for \b \B \p \P,
// back references, look-around and flags, KIMI_TOO_LONG for deep nesting.
RegexNode parse_regex(std::string_view pattern, Anchoring anchoring, std::string_view what);

}  // namespace kimi
