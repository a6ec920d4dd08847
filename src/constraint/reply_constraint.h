// A constraint over a whole reply, token by token: also what stands before and between the
// constrained texts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/token_mask.h"

namespace kimi {

// Where a reply stands. Means something only to the constraint it comes from; may be copied.
struct ReplyState {
    bool inside = false;  // of a constrained text
    ConstraintState text;
};

// A schema or expression is for all that follows the reasoning, up to the stop token; in the
// reasoning no special token is allowed but </think>, which ends it. Tool calls are constrained
// from <|tool_call_begin|> to <|tool_call_end|>, around them everything is allowed.
//
// Usable from any number of threads.
class ReplyConstraint {
  public:
    // The tokenizer must outlive it. Throws what compile_constraint() throws.
    ReplyConstraint(ConstraintKind kind, std::string_view text, const Tokenizer &tokenizer,
                    std::shared_ptr<const VocabTrie> trie, const ConstraintLimits &limits = {});

    ConstraintKind kind() const { return kind_; }
    const std::string &text() const { return text_; }

    ReplyState start(bool in_reasoning) const;
    // Every token is allowed.
    bool is_free(const ReplyState &state) const {
        return !state.inside && kind_ == ConstraintKind::tool_calls;
    }
    // As TokenMask::fill().
    void fill(const ReplyState &state, std::span<std::uint64_t> mask) const;
    bool allows(const ReplyState &state, std::int32_t token) const;
    // Appends a token to the reply. False, and the state is as before, where it is not allowed.
    bool advance(ReplyState &state, std::int32_t token) const;

  private:
    bool allows_outside(std::int32_t token) const;

    ConstraintKind kind_;
    std::string text_;
    TokenMask mask_;
    std::int32_t begin_;  // the token before a constrained text
    std::vector<std::uint64_t> outside_;
};

}  // namespace kimi
