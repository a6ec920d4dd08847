// Who holds what: the shard of every weight, and of the KV cache, on each rank.
//
// Ranks are split in expert groups of `slices()` consecutive ranks: a group holds some experts, a
// rank of it one slice of each. Everything else is split over all ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/deployment.h"
#include "placement/dims.h"

namespace kimi {

enum class AttentionSplit : std::uint8_t {
    tensor,   // heads over ranks, the KV of all tokens on every rank
    context,  // heads of the weights over ranks, all heads' attention over the rank's part of each
              // page
};

struct Placement {
    std::uint32_t ranks = 1;
    AttentionSplit attention = AttentionSplit::tensor;
    std::uint32_t expert_groups = 1;    // 1: slices of every expert; ranks: whole experts
    bool balance_experts = false;       // over the groups by recorded routing; else in order
    std::uint32_t expert_replicas = 0;  // of balanced ones, per layer, over all groups
    bool split_q_a = false, split_kv_a = false, split_router = false;  // else replicated

    std::uint32_t slices() const { return ranks / expert_groups; }
    std::uint32_t group_of(std::uint32_t rank) const { return rank / slices(); }
    // Experts of a layer that a group holds.
    std::uint32_t held_experts(const TargetDims &dims) const {
        return (dims.n_experts + expert_replicas) / expert_groups;
    }
    // Whose queries a rank attends with.
    std::uint32_t attended_heads(const TargetDims &dims) const {
        return attention == AttentionSplit::context ? dims.n_heads : dims.n_heads / ranks;
    }
    // Of the drafter, that a rank has.
    std::uint32_t kv_heads(const DrafterDims &dims) const {
        return std::max(1U, dims.n_kv_heads / ranks);
    }
    // Equal parts that the tokens of a KV page are cut into, one for each rank; 1: all ranks hold
    // all. So the ranks are equally full and busy whatever the lengths of the sequences, and what
    // is summed where depends on positions alone.
    std::uint32_t page_parts() const { return attention == AttentionSplit::context ? ranks : 1; }
    bool operator==(const Placement &) const = default;
};

// "8 ranks, attention tensor, experts in 2 groups x 4 slices, q_a split"
std::string describe(const Placement &placement);

// clang-format off
enum class WeightPart : std::uint8_t {
    experts, attention, latents /* q_a, kv_a */, router, shared, dense, embedding, head, norms,
    drafter
};
// clang-format on
inline constexpr std::size_t kWeightParts = 10;
std::string_view part_name(WeightPart part);

enum class ElementType : std::uint8_t { bf16, int4, f32 };  // int4 with a bf16 scale per 32

enum class SplitAxis : std::uint8_t { none, rows, cols };

// One [rows, cols] weight of the model and how it is cut.
struct PlacedWeight {
    std::string name;  // in the checkpoint, behind prefix, layer and expert
    WeightPart part;
    ElementType type;
    std::uint32_t rows, cols;
    std::uint32_t layers;  // that have one; of experts, one per expert
    SplitAxis axis = SplitAxis::none;
    std::uint32_t cuts = 1;    // different shards
    std::uint32_t units = 1;   // indivisible pieces along the axis: heads, groups of 32 inputs
    std::string_view unit_of;  // the config's field that they come from
};

// The part of a weight that a rank holds.
struct Shard {
    std::uint32_t row_begin = 0, n_rows = 0, col_begin = 0, n_cols = 0;
    bool operator==(const Shard &) const = default;
};

// Every weight of the model under a checked placement.
std::vector<PlacedWeight> place_weights(const Placement &placement, const ModelDims &dims);
Shard shard_of(const PlacedWeight &weight, const Placement &placement, std::uint32_t rank);
std::uint64_t shard_elements(const PlacedWeight &weight);
std::uint64_t shard_bytes(const PlacedWeight &weight);

// Throws KIMI_INVALID_ARGUMENT where a dimension does not divide, with both fields and values.
void check_placement(const Placement &placement, const ModelDims &dims);

// The placement that a deployment asks for, checked.
Placement placement_of(const Deployment &deployment, const ModelDims &dims);

}  // namespace kimi
