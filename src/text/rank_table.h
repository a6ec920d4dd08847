// The byte strings of a tiktoken file and their ranks, which are also their token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kimi {

class RankTable {
  public:
    // Reads a file with one line per token: base64 of its bytes, a space, its rank. Ranks must
    // count up from 0 and all single bytes must be there. Throws KIMI_CORRUPT with file and line.
    explicit RankTable(const std::string &path);
    RankTable(const RankTable &) = delete;
    RankTable &operator=(const RankTable &) = delete;

    static constexpr std::uint32_t kNone = UINT32_MAX;

    std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }
    // rank < size().
    std::string_view bytes(std::uint32_t rank) const {
        const std::size_t begin = rank == 0 ? 0 : ends_[rank - 1];
        return std::string_view(blob_).substr(begin, ends_[rank] - begin);
    }
    // The rank of a byte string; kNone if it is no token.
    std::uint32_t find(std::string_view bytes) const {
        const auto at = ranks_.find(bytes);
        return at == ranks_.end() ? kNone : at->second;
    }

  private:
    std::string add_line(std::string_view line);

    std::string blob_;                 // all tokens, one after another
    std::vector<std::uint32_t> ends_;  // of each token in blob_
    std::unordered_map<std::string_view, std::uint32_t> ranks_;
};

}  // namespace kimi
