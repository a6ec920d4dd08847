// What the tests of this room share: tokenizers, goldens, random text.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "text/tokenizer.h"

namespace kimi::test {

using Tokens = std::vector<std::int32_t>;

inline const Tokenizer &k26() {
    static const Tokenizer tokenizer(data("kimi-tokenizer"));
    return tokenizer;
}
inline const Json &goldens() {
    static const Json json = read_json(data("kimi-tokenizer/goldens.json"));
    return json;
}

inline Tokens ids_of(const Json &array) {
    Tokens ids;
    for (const Json &item : array.items) ids.push_back(static_cast<std::int32_t>(item.real));
    return ids;
}

inline std::string repeat(std::string_view text, std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out += text;
    return out;
}

inline std::string utf8(char32_t c) {
    const auto byte = [](char32_t b) { return static_cast<char>(b); };
    if (c < 0x80) return {byte(c)};
    if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
    if (c < 0x10000)
        return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
    return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)),
            byte(0x80 | (c & 0x3F))};
}

using Random = std::mt19937_64;

inline std::size_t below(Random &random, std::size_t n) {
    return random() % n;
}

// Any code point but surrogates, all planes and all lengths alike.
inline char32_t any_char(Random &random) {
    constexpr char32_t kLimits[] = {0x80, 0x800, 0x10000, 0x110000};
    const char32_t c = static_cast<char32_t>(below(random, kLimits[below(random, 4)]));
    return c >= 0xD800 && c < 0xE000 ? c - 0x800 : c;
}

}  // namespace kimi::test
