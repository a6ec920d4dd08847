// How a model is run, read from a deployment file and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kimi {

// The fields of deployment.fbs, with paths made absolute or relative to the caller's own folder.
struct Deployment {
    enum class Backend { cpu, cuda };
    enum class KvType { bf16, f32, fp8 };
    enum class Attention { tensor, context };
    enum class Experts { tensor, expert, groups };
    struct Placement {
        Attention attention = Attention::tensor;
        Experts experts = Experts::tensor;
        std::uint32_t expert_groups = 0;
        bool split_q_a = false, split_kv_a = false, split_router = false;
        std::uint32_t expert_replicas = 0;
        std::string expert_counts;  // empty: none
    };

    std::string checkpoint;
    std::string drafter;  // empty: none
    Backend backend = Backend::cpu;
    std::uint32_t threads = 0;
    std::uint32_t context_limit = 0;
    std::uint32_t prefill_chunk = 256;
    KvType kv_type = KvType::bf16;
    std::uint64_t kv_capacity_tokens = 0;
    std::uint32_t max_nodes = 63;
    std::uint32_t draft_sessions = 16;
    std::optional<float> qk_latent_norm_eps, rope_attention_factor;
    std::uint32_t ranks = 1;
    Placement placement;
    std::optional<float> link_gb_per_s;
    std::string cuda_library;  // empty: beside this library
    std::vector<std::uint32_t> graph_widths{1, 2, 4, 8, 12, 16, 24, 32, 48, 64};  // none: eager
    std::vector<std::uint32_t> graph_sessions{1, 2, 4};
    std::uint32_t graph_memory_mib = 4096;

    // Of a GPU, for graphs.
    std::uint64_t graph_bytes() const {
        return graph_widths.empty() ? 0 : std::uint64_t{graph_memory_mib} << 20;
    }
};

// path names a JSON or binary deployment, or a checkpoint folder (then everything else has its
// default). Throws KIMI_NOT_FOUND, KIMI_IO, KIMI_INVALID_ARGUMENT or KIMI_CORRUPT with the path,
// the field, the value found and the values allowed.
Deployment read_deployment(const std::string &path);

}  // namespace kimi
