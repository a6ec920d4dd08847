// Sets of Unicode characters, and how they are spelled in bytes.
#pragma once

#include <vector>

#include "constraint/fragment.h"

namespace kimi {

struct CharRange {
    char32_t low, high;
};
// Sorted and disjoint, without surrogates.
using CharSet = std::vector<CharRange>;

CharSet make_char_set(std::vector<CharRange> ranges);
CharSet complement(const CharSet &set);

enum class Spelling {
    plain,  // UTF-8
    // As between the quotes of a JSON string: UTF-8, and the shortest escapes of quotes,
    // backslashes and control characters. Every character has one spelling (hex digits two).
    json,
};

// Adds the ways to spell one of the characters. Neither edges into `from` nor out of `to`.
void add_chars(FragmentBuilder &builder, std::uint32_t from, std::uint32_t to, const CharSet &set,
               Spelling spelling);

}  // namespace kimi
