// The target's forward pass: multi-head latent attention and mixture of experts.
//
// On several ranks, each runs it with its shards of the weights: heads, inner widths, experts and
// vocabulary are then the rank's own, and the residual stream is the same on all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/device.h"
#include "model/config.h"
#include "model/target_weights.h"

namespace kimi {

// Of the heads that a rank has.
MlaShape mla_shape(const ModelConfig &config, const TargetWeights &weights);

// Of the rotation of `dim` dimensions, where the device computes: [dim / 2].
std::shared_ptr<const float[]> load_frequencies(Device &device, std::uint32_t dim,
                                                const YarnConfig &yarn);

class Target {
  public:
    // Reserves the buffers for passes of at most max_rows rows, of which at most max_logits want
    // logits. The outputs of the layers in `taps` are kept for a drafter.
    Target(Device &device, const ModelConfig &config, const TargetWeights &weights,
           std::uint32_t max_rows, std::uint32_t max_logits, std::vector<std::uint32_t> taps = {});

    const TargetWeights &weights() const { return w_; }
    // [rows, taps * hidden] of the last pass.
    Buffer taps() const { return features_; }

    // What the device must be ready for; rows, context, and the KV's type and pages are the
    // caller's.
    DeviceLimits limits() const;

    // Writes the plan's KV and computes the logits of its logit rows.
    void forward(const StepPlan &plan);
    // The same in a step that the device does by itself.
    void compute();
    Buffer logits() const { return logits_; }

    // Logits of the rank's tokens in logit row i of the last pass, valid until the next one.
    std::span<const float> logits(std::uint32_t i) const;

  private:
    void add_norm(const Vector &norm);
    void attention(std::uint32_t layer);
    void feed_forward(std::uint32_t layer);
    void dense(const MlpWeights &w);
    std::span<const float> frequencies() const { return {inv_freq_.get(), c_.rope_dim / 2}; }

    Device &d_;
    const ModelConfig &c_;
    const TargetWeights &w_;
    MlaShape mla_;
    RouterShape router_;
    std::shared_ptr<const float[]> inv_freq_;  // [rope / 2]
    float rope_amplitude_;
    std::vector<std::uint32_t> taps_;

    Buffer x_;              // [rows, hidden] residual stream
    Buffer a_;              // [rows, hidden] normalised input of a block
    Buffer y_;              // [rows, hidden] output of a block, the rank's part
    Buffer rope_;           // [rows, rope] cosines and sines
    Buffer q_a_;            // [rows, q_rank]
    Buffer q_;              // [rows, heads * (nope + rope)]
    Buffer kv_;             // [rows, kv_rank + rope]
    Buffer o_;              // [rows, heads * v]
    Buffer gate_, up_;      // [rows, widest mlp]
    Buffer features_;       // [rows, taps * hidden]
    Buffer router_logits_;  // [rows, experts]
    Buffer last_, logits_;  // [logit rows, hidden], [logit rows, tokens of the rank]
};

}  // namespace kimi
