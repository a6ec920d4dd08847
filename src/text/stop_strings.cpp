#include "text/stop_strings.h"

#include <algorithm>

namespace kimi {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
    std::size_t longest = 0;
    for (const std::string &string : strings_) longest = std::max(longest, string.size());
    held_.reserve(longest + 1);
}

bool StopStrings::push(std::string_view piece, std::string &out) {
    for (const char byte : piece) {
        held_ += byte;
        std::size_t match = 0, begun = 0;  // bytes at the end of held_
        for (const std::string &string : strings_) {
            if (held_.ends_with(string)) match = std::max(match, string.size());
            std::size_t n = std::min(string.size(), held_.size());
            while (n > begun && !held_.ends_with(std::string_view(string).substr(0, n))) --n;
            begun = std::max(begun, n);
        }
        const std::size_t kept = match > 0 ? match : begun;
        out.append(held_, 0, held_.size() - kept);
        held_.erase(0, held_.size() - kept);
        if (match > 0) return true;
    }
    return false;
}

void StopStrings::flush(std::string &out) {
    out += held_;
    held_.clear();
}

}  // namespace kimi
