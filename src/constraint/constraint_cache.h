// The constraints that were asked for last, compiled.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "constraint/reply_constraint.h"

namespace kimi {

// Usable from any number of threads; one of them compiles at a time.
class ConstraintCache {
  public:
    // The tokenizer must outlive the cache and its constraints.
    explicit ConstraintCache(const Tokenizer &tokenizer) : tokenizer_(&tokenizer) {}

    // Throws what compile_constraint() throws.
    std::shared_ptr<const ReplyConstraint> get(ConstraintKind kind, std::string_view text);

  private:
    const Tokenizer *tokenizer_;
    std::mutex mutex_;  // guards all below
    std::shared_ptr<const VocabTrie> trie_;
    std::vector<std::shared_ptr<const ReplyConstraint>> recent_;  // the last one asked for first
};

}  // namespace kimi
