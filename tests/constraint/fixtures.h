// What the tests of this room share.
#pragma once

#include <ctime>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "constraint/constraint.h"
#include "text/tokenizer.h"

namespace kimi::test {

using Random = std::mt19937_64;
using Compiled = std::shared_ptr<const Constraint>;

inline std::size_t below(Random &random, std::size_t n) {
    return random() % n;
}
template <typename T, std::size_t n>
const T &pick(Random &random, const T (&list)[n]) {
    return list[below(random, n)];
}

inline Compiled regex(std::string_view pattern) {
    return compile_constraint(ConstraintKind::regex, pattern);
}
inline Compiled schema(std::string_view text) {
    return compile_constraint(ConstraintKind::json_schema, text);
}

inline std::string json_string(const std::string &text) {
    Json string;
    string.kind = Json::Kind::string;
    string.text = text;
    return dump_json(string);
}

inline bool accepts(const Constraint &constraint, std::string_view text) {
    ConstraintState state = constraint.start();
    return constraint.advance(state, text) && constraint.accepting(state);
}

// No byte may follow.
inline bool dead(const Constraint &constraint, const ConstraintState &state) {
    for (int byte = 0; byte < 256; ++byte) {
        ConstraintState next = state;
        if (constraint.advance(next, static_cast<std::uint8_t>(byte))) return false;
    }
    return true;
}

// Processor time of f in seconds: others on the machine do not count.
template <typename F>
double seconds_of(F &&f) {
    const std::clock_t start = std::clock();
    f();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
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

}  // namespace kimi::test
