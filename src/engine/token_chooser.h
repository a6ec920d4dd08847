// What a session's next token is: its rules and options applied to the target's logits, and which
// drafted tokens could be that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/session.h"
#include "spec/draft_tree.h"
#include "spec/sampler.h"

namespace kimi {

class TokenChooser {
  public:
    explicit TokenChooser(std::uint32_t vocab);

    // Nothing where the session's constraint allows no token. Throws what the sampler throws.
    std::optional<std::int32_t> choose(std::span<const float> logits, const Session &session);

  private:
    Sampler sampler_;
    std::vector<std::uint64_t> allowed_;  // [vocab / 64]
    std::vector<float> biased_;           // [vocab]
};

// Appends the log-softmax of the logits: that of `token`, then those of the n likeliest, at most
// kMaxTreeNodes, lower token first on ties.
void add_logprobs(std::span<const float> logits, std::int32_t token, std::uint32_t n,
                  std::vector<kimi_logprob> &to);

// Keeps draft trees within a constraint.
class ConstraintFilter final : public DraftFilter {
  public:
    // For the tree behind this session's tokens; nullptr where nothing is to be left out.
    DraftFilter *begin(const Session &session);

    std::uint64_t allowed(const DraftTree &tree, std::uint32_t row,
                          std::span<const std::int32_t> tokens) override;

  private:
    const ReplyConstraint *constraint_ = nullptr;
    ReplyState states_[kMaxTreeNodes + 1];  // by row
};

}  // namespace kimi
