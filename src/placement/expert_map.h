// Which experts each expert group holds, layer by layer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "placement/dims.h"

namespace kimi {

// Tokens that each expert of each MoE layer got, recorded from real traffic: [MoE layers][experts].
using ExpertCounts = std::vector<std::vector<double>>;

// Reads {"expert_counts": [[...], ...]}. Throws KIMI_INVALID_ARGUMENT with path, layer and expert.
ExpertCounts read_expert_counts(const std::string &path, const TargetDims &dims);

using ExpertLists = std::vector<std::vector<std::uint16_t>>;

// The placement that it is made for has been checked. Layers count MoE layers; all lists ascend.
class ExpertMap {
  public:
    // Experts in order of their numbers, the same in every layer. No replicas.
    static ExpertMap in_order(const TargetDims &dims, std::uint32_t n_groups);
    // Copies of the busiest experts, then all copies spread so that the groups get about equally
    // many tokens. All groups hold equally many experts, and none holds one twice.
    static ExpertMap balanced(const TargetDims &dims, const ExpertCounts &counts,
                              std::uint32_t n_groups, std::uint32_t replicas);

    std::uint32_t n_groups() const { return n_groups_; }
    std::span<const std::uint16_t> experts_of(std::uint32_t layer, std::uint32_t group) const {
        return layers_[layer].experts[group];
    }
    std::span<const std::uint16_t> groups_of(std::uint32_t layer, std::uint32_t expert) const {
        return layers_[layer].groups[expert];
    }
    // The group that computes an expert for the token at an absolute position. It does not depend
    // on the rest of the pass, and so neither do a token's bits.
    std::uint32_t group_for(std::uint32_t layer, std::uint32_t expert,
                            std::uint64_t position) const {
        const auto groups = groups_of(layer, expert);
        return groups[position % groups.size()];
    }

  private:
    struct Layer {
        ExpertLists experts, groups;  // by group, by expert
    };
    explicit ExpertMap(std::uint32_t n_groups) : n_groups_(n_groups) {}
    void add_layer(ExpertLists experts, std::uint32_t n_experts);

    std::uint32_t n_groups_;
    std::vector<Layer> layers_;
};

}  // namespace kimi
