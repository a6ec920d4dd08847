// How many experts a pass reads, and how unevenly they lie on the ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "placement/dims.h"
#include "placement/expert_map.h"

namespace kimi {

// Of the expert groups in one layer and pass, mean over layers.
struct GroupLoad {
    double distinct_ratio = 1;  // experts that the busiest group reads, over the mean of groups
    double pairs_ratio = 1;     // (token, expert) pairs that it computes, over the mean
};

class Routing {
  public:
    // Uniform: every token picks top_k of the experts at random. The groups are loaded as a
    // simulation of passes of 1 .. max_tokens tokens with a fixed seed says.
    Routing(const TargetDims &dims, const ExpertMap &map, std::uint32_t max_tokens);
    // Recorded: in each layer a token picks in proportion to the counts.
    Routing(const TargetDims &dims, const ExpertMap &map, std::uint32_t max_tokens,
            ExpertCounts counts);

    // Distinct experts of a layer that n tokens touch, mean over layers. Uniform:
    // E (1 - (1 - k/E)^n).
    double distinct_experts(double n_tokens) const;
    // Of 1 or more tokens; more than max_tokens count as max_tokens.
    const GroupLoad &load(std::size_t n_tokens) const {
        return loads_[std::min(n_tokens, loads_.size()) - 1];
    }

  private:
    std::uint32_t n_experts_, top_k_;
    ExpertCounts counts_;  // uniform: one layer of ones, standing for all
    std::vector<GroupLoad> loads_;
};

}  // namespace kimi
