// The target's weights, named as the equations name them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/device.h"
#include "model/checkpoint.h"
#include "model/config.h"

namespace kimi {

struct MlpWeights {
    Matrix gate, up, down;
};

struct MoeWeights {
    Matrix router;                        // [n_experts, hidden]
    std::shared_ptr<const float[]> bias;  // [n_experts] of the router
    std::vector<Expert> experts;
    MlpWeights shared;
};

struct TargetLayer {
    Vector input_norm, post_attention_norm, q_a_norm;
    Matrix q_a, q_b, kv_a, o;
    MlaWeights mla;
    MlpWeights dense;               // of the first layers
    std::optional<MoeWeights> moe;  // of the others
};

struct TargetWeights {
    Matrix embedding, head;  // [vocab, hidden]
    Vector norm;
    std::vector<TargetLayer> layers;

    // Bytes of matrices that one token reads when it uses top_k experts per layer.
    std::uint64_t bytes_per_token(std::uint32_t top_k) const;
};

// Views into the checkpoint's mapped files, which must outlive them. Every tensor's dtype and shape
// is checked against the config, and no tensor may be left over. Throws KIMI_CORRUPT or
// KIMI_UNSUPPORTED.
TargetWeights load_target_weights(Checkpoint &checkpoint, const ModelConfig &config,
                                  float latent_norm_eps);

}  // namespace kimi
