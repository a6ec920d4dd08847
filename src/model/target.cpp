#include "model/target.h"

#include <algorithm>

#include "base/error.h"
#include "model/yarn.h"

namespace kimi {

MlaShape mla_shape(const ModelConfig &c, const TargetWeights &w) {
    return {w.layers[0].o.cols / c.v_dim,
            c.nope_dim,
            c.rope_dim,
            c.v_dim,
            c.kv_rank,
            c.softmax_scale()};
}

std::shared_ptr<const float[]> load_frequencies(Device &device, std::uint32_t dim,
                                                const YarnConfig &yarn) {
    const std::vector<float> values = yarn_inv_freq(dim, yarn);
    const std::shared_ptr<float[]> copy(new float[values.size()]);
    std::copy(values.begin(), values.end(), copy.get());
    std::shared_ptr<const float[]> out = copy;
    device.load(out, static_cast<std::uint32_t>(values.size()));
    return out;
}

Target::Target(Device &device, const ModelConfig &config, const TargetWeights &weights,
               std::uint32_t max_rows, std::uint32_t max_logits, std::vector<std::uint32_t> taps)
    : d_(device),
      c_(config),
      w_(weights),
      mla_(mla_shape(config, weights)),
      router_{c_.n_experts, c_.top_k, c_.normalize_top_k, c_.routed_scale},
      inv_freq_(load_frequencies(device, c_.rope_dim, c_.yarn)),
      rope_amplitude_(yarn_amplitude(c_.yarn)),
      taps_(std::move(taps)) {
    std::uint32_t widest = 0;
    for (const TargetLayer &l : w_.layers)
        widest = std::max(widest, l.moe ? l.moe->shared.gate.rows : l.dense.gate.rows);
    x_ = d_.alloc(max_rows, c_.hidden);
    a_ = d_.alloc(max_rows, c_.hidden);
    y_ = d_.alloc(max_rows, c_.hidden);
    rope_ = d_.alloc(max_rows, c_.rope_dim);
    q_a_ = d_.alloc(max_rows, c_.q_rank);
    q_ = d_.alloc(max_rows, mla_.n_heads * c_.qk_dim());
    kv_ = d_.alloc(max_rows, c_.latent_dim());
    o_ = d_.alloc(max_rows, mla_.n_heads * c_.v_dim);
    gate_ = d_.alloc(max_rows, widest);
    up_ = d_.alloc(max_rows, widest);
    features_ = d_.alloc(max_rows, static_cast<std::uint32_t>(taps_.size()) * c_.hidden);
    router_logits_ = d_.alloc(max_rows, c_.n_experts);
    last_ = d_.alloc(max_logits, c_.hidden);
    logits_ = d_.alloc(max_logits, w_.head.rows);
}

DeviceLimits Target::limits() const {
    DeviceLimits limits;
    limits.width = std::max({c_.hidden, c_.q_rank, o_.width, gate_.width});
    limits.top_k = c_.top_k;
    limits.n_experts = c_.n_experts;
    limits.expert_width = c_.expert_width;
    limits.hidden = c_.hidden;
    limits.vocab = c_.vocab;
    limits.mla = mla_;
    limits.kv = {KvType::bf16, c_.n_layers, 0, c_.kv_rank, c_.rope_dim};
    return limits;
}

void Target::forward(const StepPlan &plan) {
    d_.begin(plan);
    compute();
    d_.end();
}

void Target::compute() {
    d_.embed(w_.embedding, x_);
    d_.rope(frequencies(), rope_amplitude_, rope_);
    d_.rms_norm(x_, w_.layers[0].input_norm, c_.rms_eps, Rows::all, a_);
    for (std::uint32_t layer = 0; layer < c_.n_layers; ++layer) {
        attention(layer);
        add_norm(w_.layers[layer].post_attention_norm);
        feed_forward(layer);
        add_norm(layer + 1 < c_.n_layers ? w_.layers[layer + 1].input_norm : Vector());
        const auto tap = std::find(taps_.begin(), taps_.end(), layer);
        if (tap == taps_.end()) continue;
        const auto column = static_cast<std::uint32_t>(tap - taps_.begin()) * c_.hidden;
        d_.copy(x_, c_.hidden, features_.columns(column));
    }
    d_.gather(x_, c_.hidden, last_);
    d_.rms_norm(last_, w_.norm, c_.rms_eps, Rows::picked, last_);
    d_.linear({{{&w_.head, last_, logits_}}}, Rows::picked);
}

// x += y; a = norm(x)
void Target::add_norm(const Vector &norm) {
    d_.add_norm(x_, y_, c_.hidden, norm, c_.rms_eps, a_);
}

// y = o_proj(attend(q_b(norm(q_a(a))), kv_a(a)))
void Target::attention(std::uint32_t layer) {
    const TargetLayer &w = w_.layers[layer];
    d_.linear({{{&w.q_a, a_, q_a_, c_.q_rank}, {&w.kv_a, a_, kv_, c_.latent_dim()}}}, Rows::all);
    d_.rms_norm(q_a_, w.q_a_norm, w.mla.norm_eps, Rows::all, q_a_);
    d_.linear({{{&w.q_b, q_a_, q_, 0, true}}}, Rows::all);
    d_.mla(layer, mla_, w.mla, q_, kv_, rope_, o_);
    d_.linear({{{&w.o, o_, y_}}}, Rows::all);
}

// y = down(silu(gate(a)) * up(a)), of the shared expert and the chosen ones in MoE layers
void Target::feed_forward(std::uint32_t layer) {
    const TargetLayer &w = w_.layers[layer];
    if (!w.moe) return dense(w.dense);
    const MlpWeights &shared = w.moe->shared;
    d_.linear({{{&w.moe->router, a_, router_logits_, c_.n_experts},
                {&shared.gate, a_, gate_},
                {&shared.up, a_, up_}}},
              Rows::all);
    d_.swiglu(gate_, up_, shared.gate.rows);
    d_.linear({{{&shared.down, gate_, y_}}}, Rows::all);
    d_.experts(router_, router_logits_, w.moe->bias.get(), w.moe->experts, a_, y_);
}

void Target::dense(const MlpWeights &w) {
    d_.linear({{{&w.gate, a_, gate_}, {&w.up, a_, up_}}}, Rows::all);
    d_.swiglu(gate_, up_, w.gate.rows);
    d_.linear({{{&w.down, gate_, y_}}}, Rows::all);
}

std::span<const float> Target::logits(std::uint32_t i) const {
    return d_.read(logits_, i, w_.head.rows);
}

}  // namespace kimi
