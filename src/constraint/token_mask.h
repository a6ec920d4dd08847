// A constraint over a vocabulary: which tokens may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "constraint/constraint.h"
#include "constraint/vocab_trie.h"
#include "text/tokenizer.h"

namespace kimi {

// Special tokens are never allowed, but those that end the constrained text are where it is
// complete: stop tokens, or <|tool_call_end|> behind arguments.
//
// Usable from any number of threads. What is expensive is remembered, within some MiB.
class TokenMask {
  public:
    TokenMask(std::shared_ptr<const Constraint> constraint, const Tokenizer &tokenizer,
              std::shared_ptr<const VocabTrie> trie, std::span<const std::int32_t> end_tokens);

    const Constraint &constraint() const { return *constraint_; }
    std::size_t n_words() const { return n_words_; }

    // Sets bit t % 64 of word t / 64 for each allowed token t and clears the others, [at least
    // n_words()].
    void fill(const ConstraintState &state, std::span<std::uint64_t> mask) const;

    bool allows(const ConstraintState &state, std::int32_t token) const;
    // Appends a token to the text. False, and the state is as before, where it is not allowed.
    // After an end token nothing is.
    bool advance(ConstraintState &state, std::int32_t token) const;

  private:
    struct Entry;

    std::shared_ptr<const Entry> &slot(const ConstraintState &state, std::uint32_t counter) const;
    bool is_end(std::int32_t token) const;

    std::shared_ptr<const Constraint> constraint_;
    const Tokenizer *tokenizer_;
    std::shared_ptr<const VocabTrie> trie_;
    std::vector<std::int32_t> end_tokens_;
    std::size_t n_words_;
    mutable std::mutex mutex_;
    mutable std::vector<std::shared_ptr<const Entry>> cache_;
};

}  // namespace kimi
