#include "model/drafter_weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"

namespace kimi {
namespace {

void match(const FieldReader &config, std::string_view key, std::uint32_t target) {
    const std::uint32_t value = config.count(key, 0, 1U << 24);
    if (value != target)
        config.fail(KIMI_INVALID_ARGUMENT, key, "is ", value, ", the target's is ", target,
                    ": this drafter was made for another model");
}

std::vector<std::uint32_t> read_taps(const FieldReader &dflash, std::uint32_t n_layers) {
    std::vector<std::uint32_t> taps;
    const Json &ids = dflash.value("target_layer_ids");
    for (const Json &id : ids.items) {
        const bool ascends = taps.empty() || id.real > taps.back();
        if (!id.is(Json::Kind::integer) || id.real < 0 || id.real >= n_layers || !ascends)
            dflash.fail(KIMI_CORRUPT, "target_layer_ids", "is ", dump_json(ids),
                        ", must be ascending layers from 0 to ", n_layers - 1);
        taps.push_back(static_cast<std::uint32_t>(id.real));
    }
    if (taps.empty()) dflash.fail(KIMI_CORRUPT, "target_layer_ids", "must be a list of layers");
    return taps;
}

std::vector<bool> read_layer_types(const FieldReader &config, std::uint32_t n_layers) {
    if (!config.has("layer_types")) return std::vector<bool>(n_layers, false);
    std::vector<bool> sliding;
    for (const Json &type : config.value("layer_types").items) {
        if (type.text != "sliding_attention" && type.text != "full_attention")
            config.fail(KIMI_UNSUPPORTED, "layer_types", "has ", dump_json(type),
                        ", only \"sliding_attention\" and \"full_attention\" are supported");
        sliding.push_back(type.text == "sliding_attention");
    }
    if (sliding.size() != n_layers)
        config.fail(KIMI_CORRUPT, "layer_types", "has ", sliding.size(),
                    " entries, num_hidden_layers is ", n_layers);
    return sliding;
}

}  // namespace

DrafterConfig read_drafter_config(const std::string &path, const ModelConfig &target) {
    const Json root = parse_json(read_file(path, 1 << 24), path, KIMI_CORRUPT);
    const FieldReader config(root, cat(path, ": "));
    const Json *architectures = root.find("architectures");
    if (architectures == nullptr || architectures->items.empty() ||
        architectures->items[0].text != "DFlashDraftModel")
        config.fail(KIMI_UNSUPPORTED, "architectures", "must be [\"DFlashDraftModel\"]");
    config.expect_text("hidden_act", "silu");
    config.expect_flag("attention_bias", false);
    match(config, "hidden_size", target.hidden);
    match(config, "vocab_size", target.vocab);
    if (config.has("num_target_layers")) match(config, "num_target_layers", target.n_layers);

    DrafterConfig out{};
    out.hidden = target.hidden;
    out.n_heads = config.count("num_attention_heads", 1, 1024);
    out.n_kv_heads = config.count("num_key_value_heads", 1, out.n_heads);
    if (out.n_heads % out.n_kv_heads != 0)
        config.fail(KIMI_CORRUPT, "num_key_value_heads", "is ", out.n_kv_heads,
                    ", must divide num_attention_heads ", out.n_heads);
    out.head_dim = config.count("head_dim", 1, 1024);
    out.width = config.count("intermediate_size", 1, 1U << 20);
    if (out.head_dim % 32 != 0 || out.width % 32 != 0)
        config.fail(KIMI_UNSUPPORTED, "head_dim",
                    "and intermediate_size must be multiples of 32, are ", out.head_dim, " and ",
                    out.width);
    out.block_size = config.count("block_size", 2, 64);
    out.rms_eps = static_cast<float>(config.number("rms_norm_eps", 0, 1));
    out.yarn = read_yarn(config);
    out.sliding = read_layer_types(config, config.count("num_hidden_layers", 1, 1024));
    if (std::find(out.sliding.begin(), out.sliding.end(), true) != out.sliding.end())
        out.window = config.count("sliding_window", 1, 1U << 20);
    const FieldReader dflash = config.object("dflash_config");
    out.taps = read_taps(dflash, target.n_layers);
    out.mask_token = static_cast<std::int32_t>(dflash.count("mask_token_id", 0, target.vocab - 1));
    return out;
}

DrafterWeights load_drafter_weights(Checkpoint &files, const DrafterConfig &c) {
    const auto matrix = [&](const std::string &name, std::uint32_t rows, std::uint32_t cols) {
        return Matrix{WeightType::bf16, rows, cols,
                      files.take(name + ".weight", DType::bf16, {rows, cols}).data,
                      std::size_t{cols} * 2};
    };
    const auto vector = [&](const std::string &name, std::uint32_t n) {
        return Vector{n, files.take(name + ".weight", DType::bf16, {n}).data};
    };
    const std::uint32_t q_dim = c.n_heads * c.head_dim, kv_dim = c.n_kv_heads * c.head_dim;
    DrafterWeights w;
    w.fc = matrix("fc", c.hidden, static_cast<std::uint32_t>(c.taps.size()) * c.hidden);
    w.hidden_norm = vector("hidden_norm", c.hidden);
    w.norm = vector("norm", c.hidden);
    for (std::uint32_t i = 0; i < c.n_layers(); ++i) {
        const std::string p = cat("layers.", i, '.');
        DrafterLayer l;
        l.input_norm = vector(p + "input_layernorm", c.hidden);
        l.post_attention_norm = vector(p + "post_attention_layernorm", c.hidden);
        l.q = matrix(p + "self_attn.q_proj", q_dim, c.hidden);
        l.k = matrix(p + "self_attn.k_proj", kv_dim, c.hidden);
        l.v = matrix(p + "self_attn.v_proj", kv_dim, c.hidden);
        l.o = matrix(p + "self_attn.o_proj", c.hidden, q_dim);
        l.norms = {vector(p + "self_attn.q_norm", c.head_dim),
                   vector(p + "self_attn.k_norm", c.head_dim), c.rms_eps};
        l.mlp = {matrix(p + "mlp.gate_proj", c.width, c.hidden),
                 matrix(p + "mlp.up_proj", c.width, c.hidden),
                 matrix(p + "mlp.down_proj", c.hidden, c.width)};
        w.layers.push_back(l);
    }
    files.expect_all_taken();
    return w;
}

}  // namespace kimi
