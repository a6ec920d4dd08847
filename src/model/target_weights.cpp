#include "model/target_weights.h"

#include <cstring>

#include "base/error.h"

namespace kimi {
namespace {

class Loader {
  public:
    Loader(Checkpoint &checkpoint, const ModelConfig &config, float latent_norm_eps)
        : files_(checkpoint), c_(config), latent_eps_(latent_norm_eps) {
        if (files_.has("language_model.model.norm.weight") ||
            files_.has("language_model.lm_head.weight"))
            outer_ = "language_model.";
    }

    TargetWeights load() {
        TargetWeights w;
        const std::string model = outer_ + "model.";
        w.embedding = bf16(model + "embed_tokens.weight", c_.vocab, c_.hidden);
        w.norm = vector(model + "norm.weight", c_.hidden);
        w.head = linear(outer_ + "lm_head", c_.vocab, c_.hidden);
        w.layers.reserve(c_.n_layers);
        for (std::uint32_t i = 0; i < c_.n_layers; ++i)
            w.layers.push_back(layer(cat(model, "layers.", i, '.'), i));
        files_.expect_all_taken();
        return w;
    }

  private:
    TargetLayer layer(const std::string &p, std::uint32_t index) {
        const std::string a = p + "self_attn.";
        TargetLayer l;
        l.input_norm = vector(p + "input_layernorm.weight", c_.hidden);
        l.post_attention_norm = vector(p + "post_attention_layernorm.weight", c_.hidden);
        l.q_a = linear(a + "q_a_proj", c_.q_rank, c_.hidden);
        l.q_a_norm = vector(a + "q_a_layernorm.weight", c_.q_rank);
        l.q_b = linear(a + "q_b_proj", c_.n_heads * c_.qk_dim(), c_.q_rank);
        l.kv_a = linear(a + "kv_a_proj_with_mqa", c_.latent_dim(), c_.hidden);
        l.mla.kv_norm = vector(a + "kv_a_layernorm.weight", c_.kv_rank);
        l.mla.kv_b =
            bf16(a + "kv_b_proj.weight", c_.n_heads * (c_.nope_dim + c_.v_dim), c_.kv_rank);
        l.mla.norm_eps = latent_eps_;
        l.o = linear(a + "o_proj", c_.hidden, c_.n_heads * c_.v_dim);
        if (c_.is_moe(index)) {
            l.moe = moe(p + "mlp.");
        } else {
            l.dense = mlp(p + "mlp.", c_.dense_width);
        }
        return l;
    }

    MoeWeights moe(const std::string &p) {
        MoeWeights w;
        w.router = bf16(p + "gate.weight", c_.n_experts, c_.hidden);
        const Tensor &bias =
            files_.take(p + "gate.e_score_correction_bias", DType::f32, {c_.n_experts});
        const std::shared_ptr<float[]> copy(new float[c_.n_experts]);  // aligned
        std::memcpy(copy.get(), bias.data, bias.bytes);
        w.bias = copy;
        w.experts.reserve(c_.n_experts);
        for (std::uint32_t e = 0; e < c_.n_experts; ++e) {
            const MlpWeights m = mlp(cat(p, "experts.", e, '.'), c_.expert_width);
            w.experts.push_back({m.gate, m.up, m.down});
        }
        w.shared = mlp(p + "shared_experts.", c_.expert_width * c_.n_shared_experts);
        return w;
    }

    MlpWeights mlp(const std::string &p, std::uint32_t width) {
        return {linear(p + "gate_proj", width, c_.hidden), linear(p + "up_proj", width, c_.hidden),
                linear(p + "down_proj", c_.hidden, width)};
    }

    // int4 where `weight_packed` exists, bf16 otherwise.
    Matrix linear(const std::string &name, std::uint32_t rows, std::uint32_t cols) {
        if (!files_.has(name + ".weight_packed")) return bf16(name + ".weight", rows, cols);
        if (cols % 32 != 0)
            fail(KIMI_UNSUPPORTED, files_.folder(), ": tensor ", name, ".weight_packed: ", cols,
                 " inputs are not whole groups of 32");
        const Tensor &packed = files_.take(name + ".weight_packed", DType::i32, {rows, cols / 8});
        const Tensor &scale = files_.take(name + ".weight_scale", DType::bf16, {rows, cols / 32});
        // Its contents only repeat the shape (unsplit, whatever is stored here), and reading them
        // would touch a page of the files for each of 69,120 matrices.
        files_.take(name + ".weight_shape", DType::i32, {2});
        Matrix m{WeightType::int4, rows, cols, packed.data, cols / 2};
        m.scales = scale.data;
        m.scale_row_bytes = cols / 32 * 2;
        return m;
    }

    Matrix bf16(const std::string &name, std::uint32_t rows, std::uint32_t cols) {
        const Tensor &tensor = files_.take(name, DType::bf16, {rows, cols});
        return {WeightType::bf16, rows, cols, tensor.data, std::size_t{cols} * 2};
    }

    Vector vector(const std::string &name, std::uint32_t n) {
        return {n, files_.take(name, DType::bf16, {n}).data};
    }

    Checkpoint &files_;
    const ModelConfig &c_;
    float latent_eps_;
    std::string outer_;  // of every name: "language_model." in K2.5 and K2.6
};

std::uint64_t bytes(const MlpWeights &w) {
    return w.gate.bytes() + w.up.bytes() + w.down.bytes();
}

}  // namespace

std::uint64_t TargetWeights::bytes_per_token(std::uint32_t top_k) const {
    std::uint64_t sum = head.bytes();
    for (const TargetLayer &l : layers) {
        sum += l.q_a.bytes() + l.q_b.bytes() + l.kv_a.bytes() + l.mla.kv_b.bytes() + l.o.bytes();
        if (!l.moe) {
            sum += bytes(l.dense);
            continue;
        }
        const Expert &e = l.moe->experts[0];
        sum += l.moe->router.bytes() + bytes(l.moe->shared);
        sum += top_k * bytes(MlpWeights{e.gate, e.up, e.down});
    }
    return sum;
}

TargetWeights load_target_weights(Checkpoint &checkpoint, const ModelConfig &config,
                                  float latent_norm_eps) {
    return Loader(checkpoint, config, latent_norm_eps).load();
}

}  // namespace kimi
