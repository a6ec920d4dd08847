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
#include "utf8.h"

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

}  // namespace kimi::test
