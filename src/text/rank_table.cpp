#include "text/rank_table.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/mapped_file.h"

namespace kimi {
namespace {

constexpr std::size_t kMaxFile = 64 << 20;  // Kimi's has 2.8 MB
constexpr std::size_t kMaxToken = 1024;     // Kimi's longest has 256 bytes

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
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::uint32_t rank = size();
        const auto bad = [&](const auto &...why) {
            fail(KIMI_CORRUPT, path, ":", rank + 1, ": ", why...);
        };
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        const std::size_t space = std::min(line.find(' '), line.size());
        if (!decode_base64(line.substr(0, space), blob_))
            bad("expected the base64 of a token, found \"",
                line.substr(0, std::min<std::size_t>(space, 40)), "\"");
        if (space == line.size() || !is_rank(line.substr(space + 1), rank))
            bad("expected rank ", rank, ", found \"",
                line.substr(std::min(space + 1, line.size())).substr(0, 40), "\"");
        const std::size_t begin = rank == 0 ? 0 : ends_.back();
        if (blob_.size() - begin > kMaxToken)
            bad("a token of ", blob_.size() - begin, " bytes, at most ", kMaxToken, " are allowed");
        longest_ = std::max(longest_, blob_.size() - begin);
        ends_.push_back(static_cast<std::uint32_t>(blob_.size()));
    }
    ranks_.reserve(size());
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
        const auto [other, is_new] = ranks_.emplace(bytes(rank), rank);
        if (!is_new)
            fail(KIMI_CORRUPT, path, ":", rank + 1, ": the same token as in line ",
                 other->second + 1);
    }
    for (int byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        if (find({&c, 1}) == kNone)
            fail(KIMI_CORRUPT, path, ": no token for the single byte ", byte);
    }
}

}  // namespace kimi
