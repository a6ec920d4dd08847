// Decode steps that a device does by itself: it drafts, builds the trees, verifies them, chooses
// the tokens and brings what was accepted into place, and the host reads the result once.
#pragma once

#include "backend/device.h"
#include "spec/draft_tree.h"
#include "spec/sampler.h"

namespace kimi {

struct WholeStepSequence {
    // Nodes of its tree. Those that its rows have no room for are only listed.
    std::uint32_t budget = 0;
    std::uint32_t ring = 0;  // as in DraftSequence
    SamplingOptions sampling;
};

struct WholeStepPlan {
    DraftPlan blocks;  // one for each sequence; without tokens nothing is drafted
    // The rows of each sequence are its root, and places for nodes: these get tokens, positions and
    // words of their own.
    StepPlan rows;
    std::span<const WholeStepSequence> sequences;
};

struct WholeStepResult {
    DraftTree tree;             // that was verified
    std::uint32_t n_nodes = 0;  // of which tree.log_probability is known
    std::uint32_t n_accepted = 0;
    // The target's choices after the root and the accepted nodes; -1: a logit is NaN or infinite.
    std::int32_t token[kMaxTreeNodes + 1];
};

// Seconds on the device.
struct WholeStepTimes {
    double draft = 0, tree = 0, verify = 0, accept = 0, compact = 0;
};

class WholeSteps {
  public:
    virtual ~WholeSteps() = default;

    // Most rows of a step of so many sequences; 0: there is none.
    virtual std::uint32_t max_step_rows(std::uint32_t n_sequences) const = 0;

    // In this order. Between them the operations of passes are called: where something is drafted,
    // the drafter's over the blocks;
    virtual void begin_step(const WholeStepPlan &plan) = 0;
    // the target's over the rows (logits: the drafter's, of picked rows; as in top_k());
    virtual void build_trees(Buffer logits, std::uint32_t vocab) = 0;
    // and the drafter's over the context that grows (logits: the target's, of all rows).
    virtual void accept(Buffer logits, std::uint32_t vocab) = 0;
    // Computes all that, and waits for it.
    virtual void finish_step() = 0;

    // Of the last step.
    virtual const WholeStepResult &result(std::uint32_t sequence) const = 0;
    virtual const WholeStepTimes &times() const = 0;
};

}  // namespace kimi
