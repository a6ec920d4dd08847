// What a device takes beside weights and KV pages: activations, partial results, rings of the
// drafter, the tables of passes.
#pragma once

#include <cstdint>

#include "placement/dims.h"
#include "placement/placement.h"

namespace kimi {

// What is computed with at most.
struct WorkLimits {
    std::uint32_t chunk_rows = 256;  // of a prompt
    std::uint32_t tree_rows = 64;    // root and nodes
    std::uint32_t draft_sessions = 16;
    std::uint64_t graph_bytes = 0;    // of CUDA graphs
    std::uint64_t context = 262'144;  // tokens of a sequence
    bool gpu = true;                  // a CPU otherwise
};

// In bytes. Of a CPU, without the partial attention of its threads.
std::uint64_t workspace_bytes(const ModelDims &dims, const Placement &placement,
                              std::uint32_t multiprocessors, const WorkLimits &limits);

// Keys and values of one token in one layer of the drafter, bf16, of the heads of one rank.
std::uint64_t draft_token_bytes(const DrafterDims &dims, const Placement &placement);

}  // namespace kimi
