#include "text/tokenizer.h"

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "text/bpe.h"
#include "text/splitter.h"
#include "text/utf8.h"

namespace kimi {
namespace {

constexpr std::size_t kMaxConfig = 16 << 20;

// null where there is no such file.
Json read_config(const std::string &path) {
    try {
        return parse_json(read_file(path, kMaxConfig), path, KIMI_CORRUPT);
    } catch (const Error &error) {
        if (error.status == KIMI_NOT_FOUND) return {};
        throw;
    }
}

SpecialTokens read_specials(const std::string &dir, std::uint32_t n_ranks) {
    const std::string path = dir + "/tokenizer_config.json";
    const Json config = read_config(path);
    return {static_cast<std::int32_t>(n_ranks), config.find("added_tokens_decoder"), path};
}

bool has_k25_config(const std::string &dir) {
    const Json config = read_config(dir + "/config.json");
    if (config.is(Json::Kind::null)) return true;
    const Json *type = config.find("model_type");
    return type != nullptr && type->text == "kimi_k25";
}

// Encodes text between hard cuts.
class Encoding {
  public:
    Encoding(const RankTable &ranks, const SpecialTokens *specials)
        : bpe_(ranks), specials_(specials) {}

    std::vector<std::int32_t> tokens;

    void add(std::string_view text) {
        std::size_t done = 0;
        if (specials_ != nullptr) {
            while (const auto match = specials_->search(text, done)) {
                add_plain(text.substr(done, match->begin - done));
                tokens.push_back(match->id);
                done = match->begin + match->size;
            }
        }
        add_plain(text.substr(done));
    }

  private:
    void add_plain(std::string_view text) {
        while (!text.empty()) {
            const std::size_t size = first_piece(text);
            bpe_.encode(text.substr(0, size), tokens);
            text.remove_prefix(size);
        }
    }

    BpeEncoder bpe_;
    const SpecialTokens *specials_;
};

}  // namespace

Tokenizer::Tokenizer(const std::string &dir)
    : ranks_(dir + "/tiktoken.model"),
      specials_(read_specials(dir, ranks_.size())),
      supports_chat_(specials_.complete() && has_k25_config(dir)) {}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool specials) const {
    const std::size_t bad = find_invalid_utf8(text);
    if (bad != std::string_view::npos)
        fail(KIMI_INVALID_ARGUMENT, "text: invalid UTF-8 at byte ", bad);
    Encoding encoding(ranks_, specials ? &specials_ : nullptr);
    std::size_t done = 0;
    for (const std::size_t cut : hard_cuts(text)) {
        encoding.add(text.substr(done, cut - done));
        done = cut;
    }
    encoding.add(text.substr(done));
    return std::move(encoding.tokens);
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
    if (id < 0 || id >= vocab_size())
        fail(KIMI_INVALID_ARGUMENT, "token ", id, " is not in the vocabulary of ", vocab_size());
    return is_special(id) ? specials_.name(id) : ranks_.bytes(static_cast<std::uint32_t>(id));
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
    std::string text;
    for (const std::int32_t id : ids) text += token_bytes(id);
    return text;
}

std::array<std::int32_t, 3> Tokenizer::stop_tokens() const {
    return {specials_.first() + 2, specials_.first() + 1, specials_.first() + 9};
}

}  // namespace kimi
