// The 256 special tokens that follow a Kimi vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kimi {

class SpecialTokens {
  public:
    static constexpr std::int32_t kCount = 256;

    // first: the id of the first special token. added: the added_tokens_decoder of a
    // tokenizer_config.json, or null for the names of K2.6; ids that it does not name are called
    // <|reserved_token_ID|>. Throws KIMI_CORRUPT with `what` (the file) and the field, also where a
    // name of K2.6 has another id than it should.
    SpecialTokens(std::int32_t first, const Json *added, std::string_view what);

    std::int32_t first() const { return first_; }
    bool contains(std::int32_t id) const { return id >= first_ && id < first_ + kCount; }
    // contains(id).
    std::string_view name(std::int32_t id) const {
        return names_[static_cast<std::size_t>(id - first_)];
    }
    std::optional<std::int32_t> find(std::string_view name) const;
    // All names of K2.6 are there, each in its place.
    bool complete() const;

    struct Match {
        std::size_t begin, size;  // bytes
        std::int32_t id;
    };
    // The first name in text at or after byte `from`, the longest where several begin. Takes linear
    // time whatever the text.
    std::optional<Match> search(std::string_view text, std::size_t from) const;

  private:
    void read_names(const Json &added, std::string_view what);
    void index_names(std::string_view what);
    const std::string &name_at(std::size_t place) const { return names_[sorted_[place]]; }
    std::size_t longest_prefix(std::string_view text, std::size_t end) const;

    std::int32_t first_;
    std::vector<std::string> names_;    // by id - first_
    std::vector<std::size_t> sorted_;   // the names' order: places of names_
    std::vector<std::size_t> shorter_;  // by place in sorted_: 1 + the place of the longest other
                                        // name that this one begins with, or 0
    std::array<bool, 256> initial_{};   // bytes that a name begins with
};

}  // namespace kimi
