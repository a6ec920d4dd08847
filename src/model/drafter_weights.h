// The DFlash drafter's config and weights.
#pragma once

#include <string>
#include <vector>

#include "backend/device.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/target_weights.h"

namespace kimi {

struct DrafterConfig {
    std::uint32_t hidden, n_heads, n_kv_heads, head_dim, width, block_size;
    std::vector<std::uint32_t> taps;  // target layers whose outputs it reads
    std::int32_t mask_token;
    std::vector<bool> sliding;  // per layer
    std::uint32_t window;       // of sliding layers
    float rms_eps;
    YarnConfig yarn;

    std::uint32_t n_layers() const { return static_cast<std::uint32_t>(sliding.size()); }
};

// Reads a drafter's config.json and checks that it was made for this target: hidden size,
// vocabulary, layers. Throws KIMI_CORRUPT, KIMI_UNSUPPORTED or, for another target's drafter,
// KIMI_INVALID_ARGUMENT with the field and both values.
DrafterConfig read_drafter_config(const std::string &path, const ModelConfig &target);

struct DrafterLayer {
    Vector input_norm, post_attention_norm;
    Matrix q, k, v, o;
    DraftNorms norms;  // of query and key heads
    MlpWeights mlp;
};

struct DrafterWeights {
    Matrix fc;  // [hidden, taps * hidden]
    Vector hidden_norm, norm;
    std::vector<DrafterLayer> layers;
    std::uint32_t first_kv_head = 0;  // of those in k and v
};

// As load_target_weights.
DrafterWeights load_drafter_weights(Checkpoint &checkpoint, const DrafterConfig &config);

}  // namespace kimi
