#include "tools/synth/layout.h"

#include <algorithm>
#include <cstdlib>

#include <nlohmann/json.hpp>

namespace kimi::synth {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::vector<TensorSpec>;

const std::string kOuter = "language_model.";
constexpr std::uint32_t kVisionLayers = 27, kVisionWidth = 1152, kVisionMlp = 4304;

// "model-00001-of-000064.safetensors": five digits, then six.
std::string shard_name(std::size_t number, std::size_t n) {
    const auto padded = [](std::size_t value, std::size_t digits) {
        const std::string text = std::to_string(value);
        return std::string(digits - text.size(), '0') + text;
    };
    return cat("model-", padded(number, 5), "-of-", padded(n, 6), ".safetensors");
}

void add_bf16(Tensors &out, std::string name, std::vector<std::uint64_t> shape) {
    out.push_back({std::move(name), DType::bf16, std::move(shape)});
}

void add_int4(Tensors &out, const std::string &name, std::uint32_t rows, std::uint32_t cols) {
    out.push_back({name + ".weight_packed", DType::i32, {rows, cols / 8}});
    out.push_back({name + ".weight_scale", DType::bf16, {rows, cols / 32}});
    out.push_back({name + ".weight_shape",
                   DType::i32,
                   {2},
                   {static_cast<std::int32_t>(rows), static_cast<std::int32_t>(cols)}});
}

void add_mlp(Tensors &out, const std::string &p, std::uint32_t hidden, std::uint32_t width) {
    add_bf16(out, p + "gate_proj.weight", {width, hidden});
    add_bf16(out, p + "up_proj.weight", {width, hidden});
    add_bf16(out, p + "down_proj.weight", {hidden, width});
}

void add_attention(Tensors &out, const std::string &p, const ModelConfig &c) {
    add_bf16(out, p + "q_a_proj.weight", {c.q_rank, c.hidden});
    add_bf16(out, p + "q_a_layernorm.weight", {c.q_rank});
    add_bf16(out, p + "q_b_proj.weight", {c.n_heads * c.qk_dim(), c.q_rank});
    add_bf16(out, p + "kv_a_proj_with_mqa.weight", {c.latent_dim(), c.hidden});
    add_bf16(out, p + "kv_a_layernorm.weight", {c.kv_rank});
    add_bf16(out, p + "kv_b_proj.weight", {c.n_heads * (c.nope_dim + c.v_dim), c.kv_rank});
    add_bf16(out, p + "o_proj.weight", {c.hidden, c.n_heads * c.v_dim});
}

void add_moe(Tensors &out, const std::string &p, const ModelConfig &c) {
    add_bf16(out, p + "gate.weight", {c.n_experts, c.hidden});
    out.push_back({p + "gate.e_score_correction_bias", DType::f32, {c.n_experts}});
    add_mlp(out, p + "shared_experts.", c.hidden, c.expert_width * c.n_shared_experts);
    for (std::uint32_t e = 0; e < c.n_experts; ++e) {
        const std::string expert = cat(p, "experts.", e, '.');
        add_int4(out, expert + "gate_proj", c.expert_width, c.hidden);
        add_int4(out, expert + "up_proj", c.expert_width, c.hidden);
        add_int4(out, expert + "down_proj", c.hidden, c.expert_width);
    }
}

Tensors layer_tensors(const ModelConfig &c, std::uint32_t layer) {
    Tensors out;
    const std::string p = cat(kOuter, "model.layers.", layer, '.');
    add_bf16(out, p + "input_layernorm.weight", {c.hidden});
    add_bf16(out, p + "post_attention_layernorm.weight", {c.hidden});
    add_attention(out, p + "self_attn.", c);
    if (c.is_moe(layer)) {
        add_moe(out, p + "mlp.", c);
    } else {
        add_mlp(out, p + "mlp.", c.hidden, c.dense_width);
    }
    return out;
}

void add_with_bias(Tensors &out, const std::string &p, std::vector<std::uint64_t> shape) {
    add_bf16(out, p + ".bias", {shape[0]});
    add_bf16(out, p + ".weight", std::move(shape));
}

// Merges 2x2 patches.
Tensors projector_tensors(const ModelConfig &c) {
    Tensors out;
    const std::uint32_t merged = 4 * kVisionWidth;
    add_with_bias(out, "mm_projector.pre_norm", {kVisionWidth});
    add_with_bias(out, "mm_projector.proj.0", {merged, merged});
    add_with_bias(out, "mm_projector.proj.2", {c.hidden, merged});
    return out;
}

Tensors vision_tensors() {
    Tensors out;
    add_with_bias(out, "vision_tower.patch_embed.proj", {kVisionWidth, 3, 14, 14});
    add_bf16(out, "vision_tower.patch_embed.pos_emb.weight", {64, 64, kVisionWidth});
    add_with_bias(out, "vision_tower.encoder.final_layernorm", {kVisionWidth});
    for (std::uint32_t i = 0; i < kVisionLayers; ++i) {
        const std::string p = cat("vision_tower.encoder.blocks.", i, '.');
        add_with_bias(out, p + "norm0", {kVisionWidth});
        add_with_bias(out, p + "norm1", {kVisionWidth});
        add_with_bias(out, p + "wqkv", {3 * kVisionWidth, kVisionWidth});
        add_with_bias(out, p + "wo", {kVisionWidth, kVisionWidth});
        add_with_bias(out, p + "mlp.fc0", {kVisionMlp, kVisionWidth});
        add_with_bias(out, p + "mlp.fc1", {kVisionWidth, kVisionMlp});
    }
    return out;
}

// The double that prints like the float.
double decimal(float value) {
    return std::strtod(cat(value).c_str(), nullptr);
}

Json rope_scaling(const YarnConfig &yarn) {
    return {{"type", "yarn"},
            {"factor", yarn.factor},
            {"original_max_position_embeddings", yarn.original_max_position},
            {"beta_fast", yarn.beta_fast},
            {"beta_slow", yarn.beta_slow},
            {"mscale", yarn.mscale},
            {"mscale_all_dim", yarn.mscale_all_dim}};
}

Json quantization() {
    const Json weights = {{"num_bits", 4},       {"type", "int"},       {"symmetric", true},
                          {"strategy", "group"}, {"group_size", 32},    {"dynamic", false},
                          {"actorder", nullptr}, {"observer", "minmax"}};
    const Json group = {{"targets", Json::array({"Linear"})},
                        {"input_activations", nullptr},
                        {"output_activations", nullptr},
                        {"weights", weights}};
    return {
        {"quant_method", "compressed-tensors"},
        {"format", "pack-quantized"},
        {"quantization_status", "compressed"},
        {"kv_cache_scheme", nullptr},
        {"config_groups", {{"group_0", group}}},
        {"ignore",
         {"lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
          "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "re:vision_tower.*", "re:mm_projector.*"}}};
}

// The drafter's dimensions, in the proportions of Kimi's.
struct Drafter {
    std::uint32_t n_layers, n_heads, n_kv_heads, head_dim;
    std::vector<std::uint32_t> taps;  // target layers whose outputs it reads

    explicit Drafter(const ModelConfig &c)
        : n_layers(std::min(6U, c.n_layers)),
          n_heads(c.n_heads),
          n_kv_heads(c.n_heads % 8 == 0 ? c.n_heads / 8 : c.n_heads),
          head_dim(c.nope_dim) {
        const std::uint32_t first = c.n_layers > 3 ? 1 : 0;
        const std::uint32_t last = c.n_layers > 3 ? c.n_layers - 3 : c.n_layers - 1;
        const std::uint32_t n = std::min(6U, last - first + 1);
        for (std::uint32_t i = 0; i < n; ++i)
            taps.push_back(first + (n < 2 ? 0 : (2 * i * (last - first) + n - 1) / (2 * (n - 1))));
    }
};

}  // namespace

ModelConfig k26_shape() {
    ModelConfig c{};
    c.n_layers = 61, c.hidden = 7168, c.n_heads = 64, c.vocab = 163840;
    c.q_rank = 1536, c.kv_rank = 512, c.nope_dim = 128, c.rope_dim = 64, c.v_dim = 128;
    c.dense_width = 18432, c.n_dense_layers = 1;
    c.n_experts = 384, c.top_k = 8, c.expert_width = 2048, c.n_shared_experts = 1;
    c.normalize_top_k = true;
    c.routed_scale = 2.827f;
    c.rms_eps = 1e-5f;
    c.max_position = 262144;
    c.yarn = {50000.0, 64.0, 32.0, 1.0, 1.0, 1.0, 4096};
    return c;
}

std::vector<Shard> target_layout(const ModelConfig &c, bool vision) {
    std::vector<Tensors> groups;
    for (std::uint32_t layer = 0; layer < c.n_layers; ++layer)
        groups.push_back(layer_tensors(c, layer));
    Tensors outer;
    add_bf16(outer, kOuter + "model.embed_tokens.weight", {c.vocab, c.hidden});
    add_bf16(outer, kOuter + "model.norm.weight", {c.hidden});
    add_bf16(outer, kOuter + "lm_head.weight", {c.vocab, c.hidden});
    groups.push_back(std::move(outer));
    if (vision) {
        groups.push_back(projector_tensors(c));
        groups.push_back(vision_tensors());
    }
    std::vector<Shard> shards;
    for (Tensors &tensors : groups)
        shards.push_back(
            make_shard(shard_name(shards.size() + 1, groups.size()), std::move(tensors)));
    return shards;
}

std::string target_config(const ModelConfig &c) {
    const Json ids = {{"bos_token_id", c.vocab - 256},
                      {"eos_token_id", c.vocab - 254},
                      {"pad_token_id", c.vocab - 1}};
    Json text = {{"architectures", Json::array({"DeepseekV3ForCausalLM"})},
                 {"model_type", "kimi_k2"},
                 {"dtype", "bfloat16"},
                 {"num_hidden_layers", c.n_layers},
                 {"hidden_size", c.hidden},
                 {"num_attention_heads", c.n_heads},
                 {"num_key_value_heads", c.n_heads},
                 {"vocab_size", c.vocab},
                 {"q_lora_rank", c.q_rank},
                 {"kv_lora_rank", c.kv_rank},
                 {"qk_nope_head_dim", c.nope_dim},
                 {"qk_rope_head_dim", c.rope_dim},
                 {"v_head_dim", c.v_dim},
                 {"attention_bias", false},
                 {"intermediate_size", c.dense_width},
                 {"first_k_dense_replace", c.n_dense_layers},
                 {"moe_layer_freq", 1},
                 {"n_routed_experts", c.n_experts},
                 {"num_experts_per_tok", c.top_k},
                 {"moe_intermediate_size", c.expert_width},
                 {"n_shared_experts", c.n_shared_experts},
                 {"n_group", 1},
                 {"topk_group", 1},
                 {"scoring_func", "sigmoid"},
                 {"topk_method", "noaux_tc"},
                 {"norm_topk_prob", c.normalize_top_k},
                 {"routed_scaling_factor", decimal(c.routed_scale)},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", decimal(c.rms_eps)},
                 {"rope_theta", c.yarn.theta},
                 {"rope_scaling", rope_scaling(c.yarn)},
                 {"max_position_embeddings", c.max_position},
                 {"num_nextn_predict_layers", 0},
                 {"tie_word_embeddings", false},
                 {"quantization_config", quantization()}};
    text.update(ids);
    Json root = {{"architectures", Json::array({"KimiK25ForConditionalGeneration"})},
                 {"model_type", "kimi_k25"},
                 {"dtype", "bfloat16"}};
    root.update(ids);
    root["media_placeholder_token_id"] = c.vocab - 235;
    root["tie_word_embeddings"] = false;
    root["text_config"] = text;
    return root.dump(2);
}

Shard drafter_layout(const ModelConfig &c) {
    const Drafter d(c);
    Tensors out;
    add_bf16(out, "fc.weight", {c.hidden, d.taps.size() * c.hidden});
    add_bf16(out, "hidden_norm.weight", {c.hidden});
    add_bf16(out, "norm.weight", {c.hidden});
    for (std::uint32_t i = 0; i < d.n_layers; ++i) {
        const std::string p = cat("layers.", i, '.'), a = p + "self_attn.";
        add_bf16(out, p + "input_layernorm.weight", {c.hidden});
        add_bf16(out, p + "post_attention_layernorm.weight", {c.hidden});
        add_bf16(out, a + "q_proj.weight", {d.n_heads * d.head_dim, c.hidden});
        add_bf16(out, a + "k_proj.weight", {d.n_kv_heads * d.head_dim, c.hidden});
        add_bf16(out, a + "v_proj.weight", {d.n_kv_heads * d.head_dim, c.hidden});
        add_bf16(out, a + "o_proj.weight", {c.hidden, d.n_heads * d.head_dim});
        add_bf16(out, a + "q_norm.weight", {d.head_dim});
        add_bf16(out, a + "k_norm.weight", {d.head_dim});
        add_mlp(out, p + "mlp.", c.hidden, c.dense_width);
    }
    return make_shard("model.safetensors", std::move(out));
}

std::string drafter_config(const ModelConfig &c) {
    const Drafter d(c);
    Json types = Json::array();
    for (std::uint32_t i = 0; i < d.n_layers; ++i)
        types.push_back(i + 1 < d.n_layers ? "sliding_attention" : "full_attention");
    const Json root = {
        {"architectures", Json::array({"DFlashDraftModel"})},
        {"model_type", "qwen3"},
        {"dtype", "bfloat16"},
        {"hidden_size", c.hidden},
        {"num_hidden_layers", d.n_layers},
        {"num_attention_heads", d.n_heads},
        {"num_key_value_heads", d.n_kv_heads},
        {"head_dim", d.head_dim},
        {"intermediate_size", c.dense_width},
        {"rms_norm_eps", 1e-5},
        {"rope_theta", c.yarn.theta},
        {"rope_scaling", rope_scaling(c.yarn)},
        {"vocab_size", c.vocab},
        {"block_size", 8},
        {"num_target_layers", c.n_layers},
        {"use_sliding_window", true},
        {"sliding_window", 2048},
        {"layer_types", types},
        {"dflash_config", {{"mask_token_id", c.vocab - 2}, {"target_layer_ids", d.taps}}},
        {"max_position_embeddings", c.max_position},
        {"attention_bias", false},
        {"hidden_act", "silu"}};
    return root.dump(2);
}

}  // namespace kimi::synth
