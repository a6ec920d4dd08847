// The dimensions of a model that decide what a rank holds and what a step costs.
#pragma once

#include <cstdint>
#include <optional>

namespace kimi {

struct TargetDims {
    std::uint32_t n_layers = 0, n_dense_layers = 0, hidden = 0, vocab = 0;
    std::uint32_t n_heads = 0, q_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0, v_dim = 0;
    std::uint32_t dense_width = 0;
    std::uint32_t n_experts = 0, top_k = 0, expert_width = 0, n_shared_experts = 0;
    bool int4_experts = true;        // bf16 otherwise
    std::uint32_t max_position = 0;  // tokens of the longest context

    std::uint32_t n_moe_layers() const { return n_layers - n_dense_layers; }
    std::uint32_t qk_dim() const { return nope_dim + rope_dim; }
    std::uint32_t latent_dim() const { return kv_rank + rope_dim; }
};

struct DrafterDims {
    std::uint32_t n_full_layers = 0, n_sliding_layers = 0;
    std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0, width = 0;
    std::uint32_t n_taps = 0, block_size = 0, window = 0;

    std::uint32_t n_layers() const { return n_full_layers + n_sliding_layers; }
};

struct ModelDims {
    TargetDims target;
    std::optional<DrafterDims> drafter;
};

}  // namespace kimi
