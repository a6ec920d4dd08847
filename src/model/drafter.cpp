#include "model/drafter.h"

#include <algorithm>

#include "base/error.h"
#include "model/yarn.h"

namespace kimi {

Drafter::Drafter(Device &device, const DrafterConfig &config, const DrafterWeights &weights,
                 Target &target, std::uint32_t max_rows, float amplitude)
    : d_(device),
      c_(config),
      w_(weights),
      target_(target),
      max_rows_(max_rows),
      inv_freq_(load_frequencies(device, c_.head_dim, c_.yarn)),
      rope_amplitude_(amplitude > 0 ? amplitude : yarn_amplitude(c_.yarn)) {
    tokens_.reserve(max_rows);
    positions_.reserve(max_rows);
    rows_.reserve(max_rows);
    sequences_.reserve(max_rows);
    const std::size_t n_lists = std::size_t{max_blocks()} * (c_.block_size - 1);
    top_tokens_.resize(n_lists * kMaxTreeNodes);
    top_log_probability_.resize(n_lists * kMaxTreeNodes);
    const DrafterLayer &l = w_.layers[0];
    features_ = d_.alloc(max_rows, w_.fc.cols);
    context_ = d_.alloc(max_rows, c_.hidden);
    x_ = d_.alloc(max_rows, c_.hidden);
    a_ = d_.alloc(max_rows, c_.hidden);
    y_ = d_.alloc(max_rows, c_.hidden);
    rope_ = d_.alloc(max_rows, c_.head_dim);
    q_ = d_.alloc(max_rows, l.q.rows);
    o_ = d_.alloc(max_rows, l.q.rows);
    k_ = d_.alloc(max_rows, l.k.rows);
    v_ = d_.alloc(max_rows, l.v.rows);
    gate_ = d_.alloc(max_rows, l.mlp.gate.rows);
    up_ = d_.alloc(max_rows, l.mlp.gate.rows);
    logits_ = d_.alloc(max_rows, target_.weights().head.rows);
}

std::uint32_t Drafter::width() const {
    return std::max({w_.fc.cols, c_.n_heads * c_.head_dim, c_.width});
}

DraftShape Drafter::shape(std::uint32_t n_rings) const {
    const auto n_sliding =
        static_cast<std::uint32_t>(std::count(c_.sliding.begin(), c_.sliding.end(), true));
    return {heads(w_.layers[0].q),
            heads(w_.layers[0].k),
            c_.head_dim,
            c_.n_layers() - n_sliding,
            n_sliding,
            c_.window,
            n_sliding > 0 ? c_.window + kPageTokens : 0,
            n_rings,
            w_.first_kv_head,
            c_.n_kv_heads,
            c_.block_size};
}

DraftLayerRef Drafter::layer_ref(std::uint32_t index) const {
    const auto before = c_.sliding.begin() + static_cast<std::ptrdiff_t>(index);
    const bool sliding = *before;
    return {sliding, static_cast<std::uint32_t>(std::count(c_.sliding.begin(), before, sliding))};
}

void Drafter::extend(std::span<const DraftExtension> extensions) {
    rows_.clear();
    positions_.clear();
    sequences_.clear();
    for (const DraftExtension &extension : extensions) {
        DraftSequence sequence = extension.sequence;
        sequence.first_row = static_cast<std::uint32_t>(rows_.size());
        sequence.n_rows = static_cast<std::uint32_t>(extension.rows.size());
        sequences_.push_back(sequence);
        for (std::uint32_t i = 0; i < sequence.n_rows; ++i) {
            rows_.push_back(extension.rows[i]);
            positions_.push_back(sequence.first_position + i);
        }
    }
    const auto n = static_cast<std::uint32_t>(rows_.size());
    KIMI_CHECK(n <= max_rows_);
    d_.begin(DraftPlan{{}, positions_, sequences_, rows_});
    write_context();
    d_.end();
}

// context = hidden_norm(fc(features)); every layer projects its keys and values from it.
void Drafter::write_context() {
    d_.gather(target_.taps(), w_.fc.cols, features_);
    d_.linear({{{&w_.fc, features_, context_, c_.hidden}}}, Rows::all);
    d_.rms_norm(context_, w_.hidden_norm, c_.rms_eps, Rows::all, context_);
    d_.rope(frequencies(), rope_amplitude_, rope_);
    for (std::uint32_t i = 0; i < c_.n_layers(); ++i) {
        const DrafterLayer &l = w_.layers[i];
        d_.linear({{{&l.k, context_, k_}, {&l.v, context_, v_}}}, Rows::all);
        d_.draft_write(layer_ref(i), l.norms, k_, v_, rope_);
    }
}

DraftPlan Drafter::blocks(std::span<const DraftRequest> requests) {
    tokens_.clear();
    positions_.clear();
    sequences_.clear();
    for (const DraftRequest &request : requests) {
        DraftSequence sequence = request.sequence;
        sequence.first_row = static_cast<std::uint32_t>(tokens_.size());
        sequence.n_rows = c_.block_size;
        sequences_.push_back(sequence);
        for (std::uint32_t j = 0; j < c_.block_size; ++j) {
            tokens_.push_back(j == 0 ? request.root : c_.mask_token);
            positions_.push_back(sequence.first_position + j);
        }
    }
    const auto n = static_cast<std::uint32_t>(tokens_.size());
    KIMI_CHECK(n <= max_rows_);
    // The root's own row predicts nothing.
    rows_.clear();
    for (std::uint32_t r = 0; r < n; ++r)
        if (r % c_.block_size != 0) rows_.push_back(r);
    return {tokens_, positions_, sequences_, rows_};
}

void Drafter::propose() {
    d_.embed(target_.weights().embedding, x_);
    d_.rope(frequencies(), rope_amplitude_, rope_);
    d_.rms_norm(x_, w_.layers[0].input_norm, c_.rms_eps, Rows::all, a_);
    for (std::uint32_t i = 0; i < c_.n_layers(); ++i) layer(i);
    d_.gather(x_, c_.hidden, a_);
    d_.rms_norm(a_, w_.norm, c_.rms_eps, Rows::picked, a_);
    d_.linear({{{&target_.weights().head, a_, logits_}}}, Rows::picked);
}

void Drafter::draft(std::span<const DraftRequest> requests, std::uint32_t k) {
    d_.begin(blocks(requests));
    propose();
    d_.end();
    d_.top_k(logits_, target_.weights().head.rows, k, top_tokens_.data(),
             top_log_probability_.data());
}

// x += y; a = norm(x)
void Drafter::add_norm(const Vector &norm) {
    d_.add_norm(x_, y_, c_.hidden, norm, c_.rms_eps, a_);
}

void Drafter::layer(std::uint32_t index) {
    const DrafterLayer &l = w_.layers[index];
    d_.linear({{{&l.q, a_, q_}, {&l.k, a_, k_}, {&l.v, a_, v_}}}, Rows::all);
    d_.draft_attend(layer_ref(index), l.norms, q_, k_, v_, rope_, o_);
    d_.linear({{{&l.o, o_, y_}}}, Rows::all);
    add_norm(l.post_attention_norm);
    d_.linear({{{&l.mlp.gate, a_, gate_}, {&l.mlp.up, a_, up_}}}, Rows::all);
    d_.swiglu(gate_, up_, l.mlp.gate.rows);
    d_.linear({{{&l.mlp.down, gate_, y_}}}, Rows::all);
    add_norm(index + 1 < c_.n_layers() ? w_.layers[index + 1].input_norm : Vector());
}

std::span<const float> Drafter::logits(std::uint32_t i, std::uint32_t j) const {
    return d_.read(logits_, i * (c_.block_size - 1) + j - 1, target_.weights().head.rows);
}

}  // namespace kimi
