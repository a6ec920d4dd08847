// A place in a kernel's source.
#pragma once

#include <cstdint>

namespace kimi::simt {

// As a default argument, `Site site = Site::here()` names the caller's line.
struct Site {
    const char *file = "";
    unsigned line = 0;

    static constexpr Site here(const char *file = __builtin_FILE(),
                               unsigned line = __builtin_LINE()) {
        return {file, line};
    }
    constexpr bool operator==(const Site &) const = default;
};

}  // namespace kimi::simt
