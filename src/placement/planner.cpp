#include "placement/planner.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include "backend/device.h"
#include "base/error.h"

namespace kimi {
namespace {

// Closer than this the model cannot tell two placements apart.
constexpr double kTie = 1.01;

std::string two_digits(double value) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, 2);
    return {text, end.ptr};
}

Routing routing_for(const PlanRequest &r, const Placement &p) {
    const TargetDims &dims = r.dims.target;
    const std::uint32_t rows = std::max(r.limits.chunk_rows, kMaxTreeNodes + 1);
    const ExpertMap map =
        p.balance_experts ? ExpertMap::balanced(dims, r.counts, p.expert_groups, p.expert_replicas)
                          : ExpertMap::in_order(dims, p.expert_groups);
    return r.counts.empty() ? Routing(dims, map, rows) : Routing(dims, map, rows, r.counts);
}

Candidate evaluate(const PlanRequest &r, CostModel model) {
    Candidate out{std::move(model), {}};
    out.memory = out.model.memory(r.limits);
    for (const std::uint64_t context : r.contexts)
        out.step_ms += out.model
                           .drafted_step(r.machine.practical, r.tree_rows,
                                         static_cast<double>(context), r.overlap)
                           .total_ms /
                       static_cast<double>(r.contexts.size());
    const std::uint64_t longest = *std::max_element(r.contexts.begin(), r.contexts.end());
    out.fits =
        out.memory.fits() && out.memory.capacity_tokens >= std::max(longest, r.capacity_tokens);
    return out;
}

// What a candidate gives up: precision, devices, exchanges.
auto sacrifice(const Candidate &c) {
    const Placement &p = c.model.placement();
    return std::tuple(c.model.kv_format() != KvFormat::bf16, p.ranks, p.attention, p.split_q_a,
                      p.split_kv_a, p.split_router, p.expert_groups);
}

// The choice with one thing changed.
struct Alternative {
    std::string name;
    Placement placement;
    KvFormat kv;
};

std::vector<Alternative> alternatives(const Placement &p, KvFormat kv) {
    std::vector<Alternative> out;
    const auto add = [&](std::string name, auto &&change) {
        Placement changed = p;
        change(changed);
        out.push_back({std::move(name), changed, kv});
    };
    const auto word = [](bool split) { return split ? " split" : " replicated"; };
    const bool tensor = p.attention == AttentionSplit::tensor;
    for (const std::uint32_t groups : {1U, 2U, p.ranks})
        if (p.ranks > 1 && groups != p.expert_groups)
            add(cat(groups, groups == 1 ? " expert group" : " expert groups"),
                [&](Placement &q) { q.expert_groups = groups; });
    add(tensor ? "attention context" : "attention tensor", [&](Placement &q) {
        q.attention = tensor ? AttentionSplit::context : AttentionSplit::tensor;
    });
    add(cat("q_a and kv_a", word(!p.split_q_a)),
        [](Placement &q) { q.split_q_a = q.split_kv_a = !q.split_q_a; });
    add(cat("router", word(!p.split_router)),
        [](Placement &q) { q.split_router = !q.split_router; });
    const KvFormat other = kv == KvFormat::bf16 ? KvFormat::fp8 : KvFormat::bf16;
    out.push_back({cat("KV ", kv_format_name(other)), p, other});
    return out;
}

}  // namespace

CostModel cost_model(const PlanRequest &r, const Placement &placement, KvFormat kv) {
    return CostModel(r.dims, placement, r.machine, kv, routing_for(r, placement));
}

std::vector<Placement> possible_placements(const ModelDims &dims, std::uint32_t devices) {
    std::vector<Placement> out;
    for (std::uint32_t ranks = 1; ranks <= devices; ++ranks)
        for (std::uint32_t groups = 1; groups <= ranks; ++groups)
            for (std::uint32_t choice = 0; choice < (ranks == 1 ? 1U : 8U); ++choice) {
                Placement p;
                p.ranks = ranks;
                p.expert_groups = groups;
                p.attention = choice & 1 ? AttentionSplit::context : AttentionSplit::tensor;
                p.split_q_a = p.split_kv_a = (choice & 2) != 0;
                p.split_router = (choice & 4) != 0;
                try {
                    check_placement(p, dims);
                    out.push_back(p);
                } catch (const Error &) {
                    // does not divide
                }
            }
    return out;
}

std::vector<Candidate> search(const PlanRequest &r) {
    std::map<std::uint32_t, Routing> routings;  // by expert groups: simulated once
    std::vector<Candidate> out;
    for (Placement p : possible_placements(r.dims, r.machine.devices)) {
        p.balance_experts = !r.counts.empty();
        if (!routings.contains(p.expert_groups))
            routings.emplace(p.expert_groups, routing_for(r, p));
        for (const KvFormat kv : {KvFormat::bf16, KvFormat::fp8})
            if (kv != KvFormat::fp8 || r.dims.target.kv_rank % kFp8Group == 0)
                out.push_back(
                    evaluate(r, CostModel(r.dims, p, r.machine, kv, routings.at(p.expert_groups))));
    }
    std::stable_sort(out.begin(), out.end(), [](const Candidate &a, const Candidate &b) {
        return std::tuple(!a.fits, a.step_ms) < std::tuple(!b.fits, b.step_ms);
    });
    return out;
}

std::optional<Recommendation> recommend(const std::vector<Candidate> &candidates,
                                        std::uint32_t tree_rows) {
    const Candidate *best = nullptr;
    for (const Candidate &c : candidates) {
        if (!c.fits || c.step_ms > candidates[0].step_ms * kTie) continue;
        if (best == nullptr || sacrifice(c) < sacrifice(*best)) best = &c;
    }
    if (best == nullptr) return std::nullopt;
    Recommendation out{best, {}};
    for (const Alternative &a : alternatives(best->model.placement(), best->model.kv_format()))
        for (const Candidate &c : candidates) {
            if (c.model.placement() != a.placement || c.model.kv_format() != a.kv) continue;
            const double ms = c.step_ms - best->step_ms;
            out.reasons.push_back(
                cat(a.name, ": ", ms < 0 ? "" : "+", two_digits(ms), " ms per step, ",
                    c.memory.capacity_tokens, c.fits ? " tokens fit" : " tokens fit, too few",
                    ", busiest rank ", two_digits(c.model.routing().load(tree_rows).distinct_ratio),
                    "x the mean"));
        }
    return out;
}

DraftQuality quality_for(double tokens_per_step, std::uint32_t offsets) {
    const auto chain = [&](double top_1) {
        double tokens = 1, path = 1;
        for (std::uint32_t i = 0; i < offsets; ++i) tokens += path *= top_1;
        return tokens;
    };
    double low = 0, high = 1;
    for (int i = 0; i < 50; ++i) {
        const double middle = (low + high) / 2;
        (chain(middle) < tokens_per_step ? low : high) = middle;
    }
    return {high, offsets};
}

// The r-th best token of an offset is right with probability a (1 - a)^r, so a path of depth d
// whose ranks sum to s with a^d (1 - a)^s, and there are C(s + d - 1, s) such paths.
double expected_tokens(const DraftQuality &q, std::uint32_t n_nodes) {
    std::vector<std::pair<double, double>> kinds;  // probability of a path, paths
    for (std::uint32_t d = 1; d <= q.offsets; ++d) {
        double paths = 1;
        for (std::uint32_t s = 0; s <= n_nodes; ++s) {
            kinds.emplace_back(std::pow(q.top_1, d) * std::pow(1 - q.top_1, s), paths);
            paths *= double(s + d) / (s + 1);
        }
    }
    std::sort(kinds.rbegin(), kinds.rend());
    double tokens = 1, left = n_nodes;
    for (const auto &[probability, paths] : kinds) {
        const double taken = std::min(left, paths);
        tokens += taken * probability;
        left -= taken;
    }
    return tokens;
}

TreeBudget best_budget(const CostModel &model, const Rates &rates, double context, double overlap,
                       const DraftQuality &quality, std::uint32_t max_nodes) {
    TreeBudget best{0, 1, model.step(rates, 1, context).total_ms};
    for (std::uint32_t n = 1; n <= max_nodes; ++n) {
        const TreeBudget tree{n, expected_tokens(quality, n),
                              model.drafted_step(rates, n + 1, context, overlap).total_ms};
        if (tree.tokens / tree.step_ms > best.tokens / best.step_ms) best = tree;
    }
    return best;
}

}  // namespace kimi
