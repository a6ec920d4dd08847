#include "text/rank_table.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/mapped_file.h"

namespace kimi {
namespace {

constexpr std::size_t kMaxFile = 64 << 20;  // Kimi's has 2.8 MB
constexpr std::size_t kMaxToken = 1024;     // Kimi's longest has 256 bytes
constexpr std::size_t kMaxShown = 40;       // bytes of a bad line in a message

int base64_value(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

// Appends the decoded bytes; false if the text is not canonical base64 of at least one byte.
bool decode_base64(std::string_view text, std::string &out) {
    if (text.empty() || text.size() % 4 != 0) return false;
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    text.remove_suffix(padding);
    std::uint32_t bits = 0;
    int n_bits = 0;
    for (const char c : text) {
        const int value = base64_value(c);
        if (value < 0) return false;
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        out.push_back(static_cast<char>(bits >> n_bits & 0xFF));
    }
    return (bits & ((1U << n_bits) - 1)) == 0;
}

bool is_rank(std::string_view text, std::uint32_t expected) {
    char digits[12];
    const char *end = std::to_chars(digits, digits + sizeof digits, expected).ptr;
    return text == std::string_view(digits, end);
}

}  // namespace

RankTable::RankTable(const std::string &path) {
    const std::string text = read_file(path, kMaxFile);
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        const std::string wrong = add_line(line);
        if (!wrong.empty()) fail(KIMI_CORRUPT, path, ":", size() + 1, ": ", wrong);
    }
    ranks_.reserve(size());
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
        const auto [same, is_new] = ranks_.emplace(bytes(rank), rank);
        if (!is_new)
            fail(KIMI_CORRUPT, path, ":", rank + 1, ": the same token as in line ",
                 same->second + 1);
    }
    for (int byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        if (find({&c, 1}) == kNone)
            fail(KIMI_CORRUPT, path, ": no token for the single byte ", byte);
    }
}

// Adds the token of a line. Returns what is wrong with it, or nothing.
std::string RankTable::add_line(std::string_view line) {
    const std::size_t begin = blob_.size();
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string_view token = line.substr(0, space);
    const std::string_view rank = line.substr(std::min(space + 1, line.size()));
    if (!decode_base64(token, blob_))
        return cat("expected the base64 of a token, found \"", token.substr(0, kMaxShown), "\"");
    if (!is_rank(rank, size()))
        return cat("expected rank ", size(), ", found \"", rank.substr(0, kMaxShown), "\"");
    const std::size_t n_bytes = blob_.size() - begin;
    if (n_bytes > kMaxToken)
        return cat("a token of ", n_bytes, " bytes, at most ", kMaxToken, " are allowed");
    ends_.push_back(static_cast<std::uint32_t>(blob_.size()));
    return {};
}

}  // namespace kimi
