// UTF-8: strict validation, and text that arrives in arbitrary pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kimi {

// What stands at the beginning of a non-empty byte string. An invalid unit is a maximal subpart:
// the longest beginning of some character, or one byte; Unicode and Python replace each by one
// U+FFFD. A partial unit is such a beginning at the end of the bytes.
struct Utf8Unit {
    enum class Kind { valid, invalid, partial };
    Kind kind;
    std::size_t size;
};
Utf8Unit first_utf8_unit(std::string_view bytes);

// The offset of the first byte that is not part of a valid character; npos if there is none.
std::size_t find_invalid_utf8(std::string_view bytes);

struct Utf8Char {
    char32_t value;
    std::size_t size;  // bytes
};
// The first character of non-empty, valid text.
inline Utf8Char first_utf8_char(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto low = [&](std::size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
    const char32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    if (lead < 0xE0) return {(lead & 0x1F) << 6 | low(1), 2};
    if (lead < 0xF0) return {(lead & 0x0F) << 12 | low(1) << 6 | low(2), 3};
    return {(lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3), 4};
}

// Turns bytes that arrive in pieces into whole characters. However the bytes are cut, the output is
// that of Python's bytes.decode("utf-8", errors="replace").
class Utf8Stream {
  public:
    // Appends what became complete to out; holds back at most three bytes.
    void push(std::string_view bytes, std::string &out);
    // Ends the text: bytes held back become U+FFFD.
    void flush(std::string &out);

  private:
    std::string held_;
};

}  // namespace kimi
