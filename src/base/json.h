// JSON values as Python's json module reads and writes them: members keep their order, the last of
// equal keys wins unless they are refused, integers have any size.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kimi/kimi.h"

namespace kimi {

struct Json {
    enum class Kind { null, boolean, integer, real, string, array, object };
    struct Member;

    Kind kind = Kind::null;
    bool boolean = false;
    double real = 0;              // of a real or integer
    std::string text;             // of a string; digits of an integer
    std::vector<Json> items;      // of an array
    std::vector<Member> members;  // of an object

    bool is(Kind k) const { return kind == k; }
    // The value of a member; nullptr where this is no object or has no such key.
    const Json *find(std::string_view key) const;
};

struct Json::Member {
    std::string first;  // key
    Json second;
};

// Deepest nesting of arrays and objects that is read.
inline constexpr int kMaxJsonDepth = 200;

enum class EqualKeys { last_wins, refused };

// Throws `status` with `what`, the byte offset and the reason.
Json parse_json(std::string_view text, std::string_view what,
                kimi_status status = KIMI_INVALID_ARGUMENT,
                EqualKeys equal_keys = EqualKeys::last_wins);

// json.dumps(value, ensure_ascii=False, separators=(item_separator, key_separator)).
std::string dump_json(const Json &value, std::string_view item_separator = ", ",
                      std::string_view key_separator = ": ");

// repr() of a Python float.
std::string python_repr(double value);

// The name of a kind in messages: "a string", "an object", ...
std::string_view kind_name(Json::Kind kind);

}  // namespace kimi
