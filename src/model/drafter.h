// The DFlash drafter: one pass proposes the tokens after the root.
//
// Its input is the block [root, mask, ..., mask]; the mask at offset j predicts the token at
// position root + j. Its context are features of the target: the outputs of some layers for every
// token before the root. Their keys and values are computed once, when a token is committed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/device.h"
#include "model/drafter_weights.h"
#include "model/target.h"

namespace kimi {

// A sequence that is drafted for: root is its last committed token, at position
// `sequence.first_position`; first_row and n_rows are set by the drafter.
struct DraftRequest {
    std::int32_t root = 0;
    DraftSequence sequence;
};

// Committed tokens whose features extend a sequence's context: rows of the target's last pass.
struct DraftExtension {
    std::span<const std::uint32_t> rows;
    DraftSequence sequence;  // at first_position the first of them
};

class Drafter {
  public:
    // Passes cover at most max_rows rows of context, or max_rows / block_size blocks. amplitude
    // replaces YaRN's where it is positive.
    Drafter(Device &device, const DrafterConfig &config, const DrafterWeights &weights,
            Target &target, std::uint32_t max_rows, float amplitude);

    float rope_amplitude() const { return rope_amplitude_; }
    std::uint32_t block_size() const { return c_.block_size; }
    std::uint32_t max_blocks() const { return max_rows_ / c_.block_size; }
    DraftShape shape(std::uint32_t n_rings) const;
    // Largest input of a linear layer.
    std::uint32_t width() const;

    // Writes the context K/V of committed rows; all together at most max_rows.
    void extend(std::span<const DraftExtension> extensions);

    // The parts of a step that the device does by itself: the blocks of these requests, for one;
    // the pass over them; and the pass over the context, whose rows the device knows.
    DraftPlan blocks(std::span<const DraftRequest> requests);
    void propose();
    void write_context();
    Buffer logits() const { return logits_; }

    // Computes the logits of offsets 1 .. block_size - 1 of every request, and the k best tokens of
    // each offset with their log-probabilities.
    void draft(std::span<const DraftRequest> requests, std::uint32_t k);
    // Of the last draft, [requests, block_size - 1, k].
    std::span<const std::int32_t> top_tokens() const { return top_tokens_; }
    std::span<const double> top_log_probability() const { return top_log_probability_; }
    // Logits of the rank's tokens at offset j (from 1) of request i of the last draft.
    std::span<const float> logits(std::uint32_t i, std::uint32_t j) const;

  private:
    void add_norm(const Vector &norm);
    void layer(std::uint32_t index);
    std::span<const float> frequencies() const { return {inv_freq_.get(), c_.head_dim / 2}; }
    DraftLayerRef layer_ref(std::uint32_t index) const;
    // Heads of the rank's shard of a projection.
    std::uint32_t heads(const Matrix &projection) const { return projection.rows / c_.head_dim; }

    Device &d_;
    const DrafterConfig &c_;
    const DrafterWeights &w_;
    Target &target_;
    std::uint32_t max_rows_;
    std::shared_ptr<const float[]> inv_freq_;  // [head_dim / 2]
    float rope_amplitude_;

    std::vector<std::int32_t> tokens_;
    std::vector<std::uint32_t> positions_, rows_;
    std::vector<DraftSequence> sequences_;
    std::vector<std::int32_t> top_tokens_;
    std::vector<double> top_log_probability_;

    Buffer features_;   // [rows, taps * hidden] of the committed rows
    Buffer context_;    // [rows, hidden]
    Buffer x_, a_, y_;  // [rows, hidden]
    Buffer rope_;       // [rows, head_dim]
    Buffer q_, o_;      // [rows, heads * head_dim]
    Buffer k_, v_;      // [rows, kv heads * head_dim]
    Buffer gate_, up_;  // [rows, width]
    Buffer logits_;     // [rows, tokens of the rank]
};

}  // namespace kimi
