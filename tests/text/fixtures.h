// What the tests of this room share: tokenizers, goldens, random text.
#pragma once

#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "text/tokenizer.h"
#include "utf8.h"

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

// One token per byte: every border inside a spelled marker or a character is a token border.
inline Tokens bytes_of(std::string_view text) {
    static const std::map<std::string, std::int32_t> ids = [] {
        std::map<std::string, std::int32_t> map;
        for (std::int32_t id = 0; id < 256; ++id) map[std::string(k26().token_bytes(id))] = id;
        return map;
    }();
    Tokens tokens;
    for (const char c : text) tokens.push_back(ids.at(std::string(1, c)));
    return tokens;
}

inline std::string repeat(std::string_view text, std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out += text;
    return out;
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
