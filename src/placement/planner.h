// Comparing placements, and choosing one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "placement/cost_model.h"

namespace kimi {

// What a deployment is planned for.
struct PlanRequest {
    ModelDims dims;
    Machine machine;
    ExpertCounts counts;                  // recorded routing; empty: uniform
    std::vector<std::uint64_t> contexts;  // tokens, at least one
    std::uint32_t tree_rows = 9;          // root and nodes of a verify step
    double overlap = 1;                   // of the experts of a tree's rows
    std::uint64_t capacity_tokens = 0;    // that must fit at least
    WorkLimits limits;
};

// Builds cost models, simulating each number of expert groups once.
class Planner {
  public:
    explicit Planner(PlanRequest request) : request_(std::move(request)) {}

    const PlanRequest &request() const { return request_; }
    CostModel model(const Placement &placement, KvFormat kv);

  private:
    PlanRequest request_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Routing> routings_;  // by groups, replicas
};

// Every placement on up to `devices` ranks that divides, without replicas.
std::vector<Placement> possible_placements(const ModelDims &dims, std::uint32_t devices);

struct Candidate {
    CostModel model;
    DeviceMemory memory;
    double step_ms = 0;  // of a verify step with its draft, practical, mean over the contexts
    bool fits = false;   // with the tokens that are asked for
};

// All placements with KV in bf16 and fp8: those that fit first, the fastest first.
std::vector<Candidate> search(Planner &planner);

struct Recommendation {
    Candidate choice;
    std::vector<std::string> reasons;
};
// Of those within 1 % of the fastest the one that quantises and exchanges least; none where none
// fits.
std::optional<Recommendation> recommend(Planner &planner, const std::vector<Candidate> &candidates);

// How a drafter fares: the probability that its best token at an offset is right, if all before it
// are; the next ones share what is left in the same way.
struct DraftQuality {
    double top_1 = 0;
    std::uint32_t offsets = 7;  // that a block drafts
};
// The quality at which a plain chain over the whole block commits this many tokens per step.
DraftQuality quality_for(double tokens_per_step, std::uint32_t offsets);
// Tokens that a step with the best tree of n nodes commits: 1 for n = 0.
double expected_tokens(const DraftQuality &quality, std::uint32_t n_nodes);

// Nodes and what they give.
struct TreeBudget {
    std::uint32_t nodes = 0;
    double tokens = 1, step_ms = 0;
};
// The number of nodes up to max_nodes that commits the most tokens per second.
TreeBudget best_budget(const CostModel &model, const Rates &rates, double context, double overlap,
                       const DraftQuality &quality, std::uint32_t max_nodes);

}  // namespace kimi
