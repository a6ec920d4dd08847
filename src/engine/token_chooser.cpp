#include "engine/token_chooser.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/top_k.h"

namespace kimi {

TokenChooser::TokenChooser(std::uint32_t vocab)
    : sampler_(vocab), allowed_((vocab + 63) / 64), biased_(vocab) {}

std::optional<std::int32_t> TokenChooser::choose(std::span<const float> logits,
                                                 const Session &session) {
    const ReplyRules &rules = session.rules();
    std::span<const std::uint64_t> allowed;
    if (rules.constraint && !rules.constraint->is_free(session.reply_state())) {
        rules.constraint->fill(session.reply_state(), allowed_);
        if (std::all_of(allowed_.begin(), allowed_.end(), [](auto word) { return word == 0; }))
            return std::nullopt;
        allowed = allowed_;
    }
    if (!rules.biases.empty()) {
        std::copy(logits.begin(), logits.end(), biased_.begin());
        for (const auto &[token, bias] : rules.biases)
            biased_[static_cast<std::size_t>(token)] += bias;
        logits = biased_;
    }
    return sampler_.sample(logits, session.options().sampling, session.n_tokens(), allowed);
}

void add_logprobs(std::span<const float> logits, std::int32_t token, std::uint32_t n,
                  std::vector<kimi_logprob> &to) {
    TopK top;
    find_top_k(logits, 0, n, top);
    const double log_sum = top.logit[0] + std::log(top.sum);
    const auto add = [&](std::int32_t id, double logit) {
        to.push_back({id, static_cast<float>(logit - log_sum)});
    };
    add(token, logits[static_cast<std::size_t>(token)]);
    for (std::uint32_t i = 0; i < top.n; ++i) add(top.token[i], top.logit[i]);
}

DraftFilter *ConstraintFilter::begin(const Session &session) {
    constraint_ = session.rules().constraint.get();
    if (constraint_ == nullptr) return nullptr;
    states_[0] = session.reply_state();
    return this;
}

std::uint64_t ConstraintFilter::allowed(const DraftTree &tree, std::uint32_t row,
                                        std::span<const std::int32_t> tokens) {
    ReplyState &state = states_[row];
    if (row > 0) {
        state = states_[tree.parent[row - 1]];
        constraint_->advance(state, tree.token[row - 1]);
    }
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i)
        if (constraint_->allows(state, tokens[i])) bits |= std::uint64_t{1} << i;
    return bits;
}

}  // namespace kimi
