#include "constraint/reply_constraint.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace kimi {
namespace {

std::int32_t marker(const Tokenizer &tokenizer, std::string_view name) {
    const std::optional<std::int32_t> token = tokenizer.special(name);
    if (!token) fail(KIMI_UNSUPPORTED, "this tokenizer has no ", name);
    return *token;
}

std::vector<std::int32_t> end_tokens(ConstraintKind kind, const Tokenizer &tokenizer) {
    if (kind == ConstraintKind::tool_calls) return {marker(tokenizer, "<|tool_call_end|>")};
    const auto stops = tokenizer.stop_tokens();
    return {stops.begin(), stops.end()};
}

}  // namespace

ReplyConstraint::ReplyConstraint(ConstraintKind kind, std::string_view text,
                                 const Tokenizer &tokenizer, std::shared_ptr<const VocabTrie> trie,
                                 const ConstraintLimits &limits)
    : kind_(kind),
      text_(text),
      mask_(compile_constraint(kind, text, limits), tokenizer, std::move(trie),
            end_tokens(kind, tokenizer)),
      begin_(marker(tokenizer,
                    kind == ConstraintKind::tool_calls ? "<|tool_call_begin|>" : "</think>")),
      outside_(mask_.n_words()) {
    for (std::int32_t token = 0; token < tokenizer.vocab_size(); ++token)
        if (kind == ConstraintKind::tool_calls || token == begin_ || !tokenizer.is_special(token))
            outside_[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << token % 64;
}

ReplyState ReplyConstraint::start(bool in_reasoning) const {
    const bool inside = kind_ != ConstraintKind::tool_calls && !in_reasoning;
    return {inside, mask_.constraint().start()};
}

void ReplyConstraint::fill(const ReplyState &state, std::span<std::uint64_t> mask) const {
    if (state.inside) return mask_.fill(state.text, mask);
    std::fill(std::copy(outside_.begin(), outside_.end(), mask.begin()), mask.end(), 0);
}

bool ReplyConstraint::allows_outside(std::int32_t token) const {
    const auto at = static_cast<std::size_t>(token);
    return at / 64 < outside_.size() && (outside_[at / 64] >> at % 64 & 1) != 0;
}

bool ReplyConstraint::allows(const ReplyState &state, std::int32_t token) const {
    return state.inside ? mask_.allows(state.text, token) : allows_outside(token);
}

bool ReplyConstraint::advance(ReplyState &state, std::int32_t token) const {
    if (state.inside) {
        if (!mask_.advance(state.text, token)) return false;
        const bool ended = state.text.state == 0;
        if (ended && kind_ == ConstraintKind::tool_calls) state = start(false);
        return true;
    }
    if (!allows_outside(token)) return false;
    state.inside = token == begin_;
    return true;
}

}  // namespace kimi
