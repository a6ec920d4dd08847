#include "model/dims.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"
#include "model/safetensors.h"

namespace kimi {
namespace {

bool is_int4_expert(std::string_view tensor) {
    return tensor.ends_with(".experts.0.gate_proj.weight_packed");
}

bool has_int4_experts(const std::string &folder) {
    const std::string whole = folder + "/model.safetensors";
    if (file_exists(whole)) {
        const MappedFile file(whole);
        const std::vector<Tensor> tensors = read_safetensors(file);
        return std::any_of(tensors.begin(), tensors.end(),
                           [](const Tensor &t) { return is_int4_expert(t.name); });
    }
    const std::string path = folder + "/model.safetensors.index.json";
    const Json root = parse_json(read_file(path, std::size_t{1} << 28), path, KIMI_CORRUPT);
    const Json *map = root.find("weight_map");
    if (map == nullptr || !map->is(Json::Kind::object))
        fail(KIMI_CORRUPT, path, ": weight_map must be an object");
    return std::any_of(map->members.begin(), map->members.end(),
                       [](const Json::Member &m) { return is_int4_expert(m.first); });
}

}  // namespace

TargetDims dims_of(const ModelConfig &c, bool int4_experts) {
    return {.n_layers = c.n_layers,
            .n_dense_layers = c.n_dense_layers,
            .hidden = c.hidden,
            .vocab = c.vocab,
            .n_heads = c.n_heads,
            .q_rank = c.q_rank,
            .kv_rank = c.kv_rank,
            .nope_dim = c.nope_dim,
            .rope_dim = c.rope_dim,
            .v_dim = c.v_dim,
            .dense_width = c.dense_width,
            .n_experts = c.n_experts,
            .top_k = c.top_k,
            .expert_width = c.expert_width,
            .n_shared_experts = c.n_shared_experts,
            .int4_experts = int4_experts,
            .max_position = c.max_position};
}

DrafterDims dims_of(const DrafterConfig &c) {
    const auto n_sliding = std::count(c.sliding.begin(), c.sliding.end(), true);
    DrafterDims out;
    out.n_sliding_layers = static_cast<std::uint32_t>(n_sliding);
    out.n_full_layers = c.n_layers() - out.n_sliding_layers;
    out.n_heads = c.n_heads;
    out.n_kv_heads = c.n_kv_heads;
    out.head_dim = c.head_dim;
    out.width = c.width;
    out.n_taps = static_cast<std::uint32_t>(c.taps.size());
    out.block_size = c.block_size;
    out.window = c.window;
    return out;
}

ModelDims read_model_dims(const std::string &checkpoint, const std::string &drafter) {
    const ModelConfig config = read_model_config(checkpoint + "/config.json");
    ModelDims out{dims_of(config, has_int4_experts(checkpoint)), {}};
    if (!drafter.empty())
        out.drafter = dims_of(read_drafter_config(drafter + "/config.json", config));
    return out;
}

}  // namespace kimi
