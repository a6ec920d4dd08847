// Comparing placements, and choosing one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/cost_model.h"

namespace kimi {

// What is planned for.
struct PlanRequest {
    ModelDims dims;
    Machine machine;
    ExpertCounts counts;                  // recorded routing; empty: uniform
    std::vector<std::uint64_t> contexts;  // tokens, at least one
    std::uint32_t tree_rows = 9;          // root and nodes of a verify step
    double overlap = 1;                   // of the experts of its rows
    std::uint64_t capacity_tokens = 0;    // that must fit at least
    WorkLimits limits;
};

CostModel cost_model(const PlanRequest &request, const Placement &placement, KvFormat kv);

// Every placement on up to `devices` ranks that divides, without replicas.
std::vector<Placement> possible_placements(const ModelDims &dims, std::uint32_t devices);

struct Candidate {
    CostModel model;
    DeviceMemory memory;
    double step_ms = 0;  // of a verify step with its draft, practical, mean over the contexts
    bool fits = false;   // with the tokens that are asked for
};

// All possible placements with KV in bf16 and fp8, experts balanced where routing is recorded:
// those that fit first, the fastest first.
std::vector<Candidate> search(const PlanRequest &request);

struct Recommendation {
    const Candidate *choice;           // of the candidates
    std::vector<std::string> reasons;  // what changes with one thing chosen differently
};
// Of those within 1 % of the fastest the one that quantises and exchanges least; nothing where none
// fits.
std::optional<Recommendation> recommend(const std::vector<Candidate> &candidates,
                                        std::uint32_t tree_rows);

// How well a drafter guesses: its best token at an offset is right with probability top_1 if all
// before it are, and each further one with the same share of what is left.
struct DraftQuality {
    double top_1 = 0;
    std::uint32_t offsets = 7;  // that a block drafts
};
// The quality at which a chain over the whole block commits this many tokens per step.
DraftQuality quality_for(double tokens_per_step, std::uint32_t offsets);
// Tokens that a step commits with the best tree of n nodes; 1 for n = 0.
double expected_tokens(const DraftQuality &quality, std::uint32_t n_nodes);

struct TreeBudget {
    std::uint32_t nodes = 0;
    double tokens = 1, step_ms = 0;
};
// The number of nodes up to max_nodes that commits the most tokens per second.
TreeBudget best_budget(const CostModel &model, const Rates &rates, double context, double overlap,
                       const DraftQuality &quality, std::uint32_t max_nodes);

}  // namespace kimi
