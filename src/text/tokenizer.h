// Kimi's tokenizer: text to token ids and back.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/rank_table.h"
#include "text/special_tokens.h"

namespace kimi {

// Immutable, and so usable from any number of threads. Ids count from 0: first the tokens of
// tiktoken.model, then 256 special ones.
class Tokenizer {
  public:
    // Needs dir/tiktoken.model; looks at tokenizer_config.json and config.json where present.
    // Throws KIMI_NOT_FOUND, KIMI_IO, and KIMI_CORRUPT with file and line or field.
    explicit Tokenizer(const std::string &dir);

    std::int32_t vocab_size() const { return specials_.first() + SpecialTokens::kCount; }

    // Adds no BOS or EOS. With specials, names of special tokens become their token; without, they
    // are text like any other. Throws KIMI_INVALID_ARGUMENT with the byte offset where the text is
    // not UTF-8. Cuts giant texts as the reference does, see hard_cuts().
    std::vector<std::int32_t> encode(std::string_view text, bool specials) const;

    // The bytes of one token, of a special one its name. Throws KIMI_INVALID_ARGUMENT.
    std::string_view token_bytes(std::int32_t id) const;
    // The bytes of all tokens; not always valid UTF-8.
    std::string decode(std::span<const std::int32_t> ids) const;

    bool is_special(std::int32_t id) const { return specials_.contains(id); }
    std::optional<std::int32_t> special(std::string_view name) const {
        return specials_.find(name);
    }
    // <|im_end|>, [EOS] and [EOT]: each ends a reply.
    std::array<std::int32_t, 3> stop_tokens() const;

    // The checkpoint's chat format is that of K2.5 and K2.6.
    bool supports_chat() const { return supports_chat_; }

  private:
    RankTable ranks_;
    SpecialTokens specials_;
    bool supports_chat_;
};

}  // namespace kimi
