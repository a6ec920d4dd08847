// The character classes that Kimi's splitting rules distinguish, Unicode 16.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kimi {

// A set of these describes a character. CR and LF are also kSpace. Combining marks are kUpper,
// kLower and kSymbol at once: the rules allow them in words and in punctuation.
enum CharClass : std::uint8_t {
    kHan = 0x01,      // Script=Han
    kUpper = 0x02,    // {Lu, Lt, Lm, Lo, M} without Han
    kLower = 0x04,    // {Ll, Lm, Lo, M} without Han
    kNumber = 0x08,   // N
    kSpace = 0x10,    // White_Space
    kNewline = 0x20,  // CR, LF
    kSymbol = 0x40,   // neither white space nor letter nor number
};

// Blocks of 128 characters; equal blocks with a single class are stored once.
struct ClassTable {
    static constexpr std::size_t kBlock = 128;
    static constexpr std::size_t kMaxDistinct = 288;
    std::array<std::uint16_t, 0x110000 / kBlock> block{};
    std::array<std::array<std::uint8_t, kBlock>, kMaxDistinct> classes{};
};
extern const ClassTable kClassTable;

// c is a code point.
inline std::uint8_t char_class(char32_t c) {
    return kClassTable.classes[kClassTable.block[c / ClassTable::kBlock]][c % ClassTable::kBlock];
}

// Python's str.isspace(): white space and U+001C..U+001F.
inline bool is_python_space(char32_t c) {
    return (char_class(c) & kSpace) != 0 || (c >= 0x1C && c <= 0x1F);
}

}  // namespace kimi
