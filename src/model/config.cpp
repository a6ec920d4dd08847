#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "backend/device.h"
#include "base/mapped_file.h"
#include "model/yarn.h"

namespace kimi {
namespace {

// Beyond any plausible model, and small enough that products of two dimensions fit 32 bits.
constexpr std::uint32_t kMaxVocab = 1U << 24, kMaxWidth = 1U << 20, kMaxHead = 4096;

// Dimensions that the kernels walk in whole vectors and int4 groups.
void check_multiple(const FieldReader &config, std::string_view key, std::uint32_t of) {
    const std::uint32_t value = config.count(key, 1, kMaxWidth);
    if (value % of != 0)
        config.fail(KIMI_UNSUPPORTED, key, "is ", value, ", must be a multiple of ", of);
}

void check_supported(const FieldReader &config) {
    config.expect_text("hidden_act", "silu");
    config.expect_text("scoring_func", "sigmoid");
    config.expect_text("topk_method", "noaux_tc");
    config.expect_count("n_group", 1);
    config.expect_count("topk_group", 1);
    config.expect_count("moe_layer_freq", 1);
    config.expect_flag("attention_bias", false);
    config.expect_flag("tie_word_embeddings", false);
    for (const char *key : {"hidden_size", "q_lora_rank", "kv_lora_rank", "intermediate_size",
                            "moe_intermediate_size"})
        check_multiple(config, key, 32);
    for (const char *key : {"qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"})
        check_multiple(config, key, 16);
}

// Only the routed experts may be quantised, in groups of 32; which tensors are is seen in the
// files.
void check_quantization(const FieldReader &config) {
    if (!config.has("quantization_config")) return;
    const FieldReader quantization = config.object("quantization_config");
    quantization.expect_text("quant_method", "compressed-tensors");
    quantization.expect_text("format", "pack-quantized");
    const FieldReader groups = quantization.object("config_groups");
    const FieldReader weights = groups.object("group_0").object("weights");
    weights.expect_count("num_bits", 4);
    weights.expect_text("type", "int");
    weights.expect_flag("symmetric", true);
    weights.expect_text("strategy", "group");
    weights.expect_count("group_size", 32);
}

}  // namespace

FieldReader::FieldReader(const Json &object, std::string where)
    : object_(&object), where_(std::move(where)) {
    if (!object.is(Json::Kind::object))
        kimi::fail(KIMI_CORRUPT, where_, "must be an object, is ", kind_name(object.kind));
}

bool FieldReader::has(std::string_view key) const {
    const Json *value = object_->find(key);
    return value != nullptr && !value->is(Json::Kind::null);
}

const Json &FieldReader::value(std::string_view key) const {
    const Json *value = object_->find(key);
    if (value == nullptr) fail(KIMI_CORRUPT, key, "is missing");
    return *value;
}

FieldReader FieldReader::object(std::string_view key) const {
    const Json &json = value(key);
    if (!json.is(Json::Kind::object))
        fail(KIMI_CORRUPT, key, "must be an object, is ", kind_name(json.kind));
    return FieldReader(json, cat(where_, key, "."));
}

std::uint32_t FieldReader::count(std::string_view key, std::uint32_t min, std::uint32_t max) const {
    const Json &json = value(key);
    if (!json.is(Json::Kind::integer) || json.real < min || json.real > max)
        fail(KIMI_CORRUPT, key, "is ", dump_json(json), ", must be an integer from ", min, " to ",
             max);
    return static_cast<std::uint32_t>(json.real);
}

double FieldReader::number(std::string_view key, double min, double max) const {
    const Json &json = value(key);
    const bool is_number = json.is(Json::Kind::integer) || json.is(Json::Kind::real);
    if (!is_number || !(json.real >= min && json.real <= max))
        fail(KIMI_CORRUPT, key, "is ", dump_json(json), ", must be a number from ", min, " to ",
             max);
    return json.real;
}

bool FieldReader::boolean(std::string_view key) const {
    const Json &json = value(key);
    if (!json.is(Json::Kind::boolean))
        fail(KIMI_CORRUPT, key, "is ", dump_json(json), ", must be true or false");
    return json.boolean;
}

std::string_view FieldReader::string(std::string_view key) const {
    const Json &json = value(key);
    if (!json.is(Json::Kind::string))
        fail(KIMI_CORRUPT, key, "is ", dump_json(json), ", must be a string");
    return json.text;
}

void FieldReader::expect_text(std::string_view key, std::string_view wanted) const {
    if (string(key) != wanted)
        fail(KIMI_UNSUPPORTED, key, "is \"", string(key), "\", only \"", wanted, "\" is supported");
}

void FieldReader::expect_flag(std::string_view key, bool wanted) const {
    if (has(key) && boolean(key) != wanted)
        fail(KIMI_UNSUPPORTED, key, "is ", !wanted, ", only ", wanted, " is supported");
}

void FieldReader::expect_count(std::string_view key, std::uint32_t wanted) const {
    if (has(key) && count(key, 0, kMaxVocab) != wanted)
        fail(KIMI_UNSUPPORTED, key, "is ", count(key, 0, kMaxVocab), ", only ", wanted,
             " is supported");
}

YarnConfig read_yarn(const FieldReader &config) {
    YarnConfig yarn;
    yarn.theta = config.number("rope_theta", 2, 1e12);
    if (!config.has("rope_scaling")) return yarn;
    const FieldReader scaling = config.object("rope_scaling");
    scaling.expect_text(scaling.has("rope_type") ? "rope_type" : "type", "yarn");
    yarn.factor = scaling.number("factor", 1, 1e6);
    yarn.original_max_position = scaling.count("original_max_position_embeddings", 1, kMaxVocab);
    // Absent fields have the defaults of the reference implementation.
    if (scaling.has("beta_fast")) yarn.beta_fast = scaling.number("beta_fast", 1e-3, 1e6);
    if (scaling.has("beta_slow")) yarn.beta_slow = scaling.number("beta_slow", 1e-3, 1e6);
    if (scaling.has("mscale")) yarn.mscale = scaling.number("mscale", 0, 100);
    if (scaling.has("mscale_all_dim"))
        yarn.mscale_all_dim = scaling.number("mscale_all_dim", 0, 100);
    return yarn;
}

float ModelConfig::softmax_scale() const {
    const double m = yarn_mscale(yarn.factor, yarn.mscale_all_dim);
    return static_cast<float>(m * m / std::sqrt(static_cast<double>(qk_dim())));
}

ModelConfig read_model_config(const std::string &path) {
    return parse_model_config(read_file(path, 1 << 24), path);
}

ModelConfig parse_model_config(std::string_view json, const std::string &path) {
    const Json root = parse_json(json, path, KIMI_CORRUPT);
    const FieldReader top(root, cat(path, ": "));
    const FieldReader config = top.has("text_config") ? top.object("text_config") : top;
    const std::string_view type = config.string("model_type");
    if (type != "kimi_k2" && type != "deepseek_v3")
        config.fail(KIMI_UNSUPPORTED, "model_type", "is \"", type,
                    "\", only \"kimi_k2\" and \"deepseek_v3\" are supported");
    check_supported(config);
    check_quantization(config);

    ModelConfig out{};
    out.n_layers = config.count("num_hidden_layers", 1, 4096);
    out.hidden = config.count("hidden_size", 1, kMaxWidth);
    out.n_heads = config.count("num_attention_heads", 1, 1024);
    out.vocab = config.count("vocab_size", 1, kMaxVocab);
    out.q_rank = config.count("q_lora_rank", 1, kMaxWidth);
    out.kv_rank = config.count("kv_lora_rank", 1, kMaxHead);
    out.nope_dim = config.count("qk_nope_head_dim", 1, kMaxHead);
    out.rope_dim = config.count("qk_rope_head_dim", 1, kMaxHead);
    out.v_dim = config.count("v_head_dim", 1, kMaxHead);
    out.dense_width = config.count("intermediate_size", 1, kMaxWidth);
    out.n_dense_layers = config.count("first_k_dense_replace", 0, out.n_layers);
    out.n_experts = config.count("n_routed_experts", 1, 4096);
    out.top_k = config.count("num_experts_per_tok", 1, std::min(out.n_experts, kMaxTopK));
    out.expert_width = config.count("moe_intermediate_size", 1, kMaxWidth);
    out.n_shared_experts = config.count("n_shared_experts", 1, 64);
    out.normalize_top_k = config.boolean("norm_topk_prob");
    out.routed_scale = static_cast<float>(config.number("routed_scaling_factor", 0, 1e6));
    out.rms_eps = static_cast<float>(config.number("rms_norm_eps", 0, 1));
    out.max_position = config.count("max_position_embeddings", 1, kMaxVocab);
    out.yarn = read_yarn(config);
    return out;
}

}  // namespace kimi
