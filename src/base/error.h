// The error that travels inside the library, and the text of its message.
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

#include "kimi/kimi.h"

namespace kimi {

// Thrown anywhere inside; caught in capi/ and at the top of rank threads, never crosses the C ABI.
struct Error {
    kimi_status status;
    std::string text;
};

namespace detail {
template <typename T>
void append(std::string &out, const T &part) {
    if constexpr (std::convertible_to<const T &, std::string_view>) {
        out.append(std::string_view(part));
    } else if constexpr (std::same_as<T, char>) {
        out.push_back(part);
    } else if constexpr (std::same_as<T, bool>) {
        out.append(part ? "true" : "false");
    } else {
        char digits[32];
        out.append(digits, std::to_chars(digits, digits + sizeof digits, part).ptr);
    }
}
}  // namespace detail

// Concatenates strings, characters, numbers and booleans, independent of the locale.
template <typename... Parts>
std::string cat(const Parts &...parts) {
    std::string out;
    (detail::append(out, parts), ...);
    return out;
}

template <typename... Parts>
[[noreturn]] void fail(kimi_status status, const Parts &...parts) {
    throw Error{status, cat(parts...)};
}

// The exception being handled, as a status and a text. Call it in a catch block.
Error current_error() noexcept;

}  // namespace kimi

#define KIMI_STRINGIFY_(x) #x
#define KIMI_STRINGIFY(x) KIMI_STRINGIFY_(x)

// An invariant of the library. A violation is a bug: it fails the engine with KIMI_INTERNAL, not
// the process.
#define KIMI_CHECK(condition)                                          \
    (static_cast<bool>(condition)                                      \
         ? void(0)                                                     \
         : ::kimi::fail(KIMI_INTERNAL, "broken invariant at " __FILE__ \
                                       ":" KIMI_STRINGIFY(__LINE__) ": " #condition))
