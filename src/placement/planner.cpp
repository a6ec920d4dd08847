#include "placement/planner.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "base/error.h"

namespace kimi {
namespace {

// Closer than this the model cannot tell two placements apart.
constexpr double kTie = 1.01;

std::string fixed(double value, int digits) {
    char text[64];
    const auto end =
        std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits);
    return {text, end.ptr};
}

std::string signed_ms(double ms) {
    return cat(ms < 0 ? "" : "+", fixed(ms, 2), " ms");
}

Candidate evaluate(Planner &planner, const Placement &placement, KvFormat kv) {
    const PlanRequest &r = planner.request();
    Candidate out{planner.model(placement, kv), {}};
    out.memory = out.model.memory(r.limits);
    for (const std::uint64_t context : r.contexts) {
        const double tokens = static_cast<double>(context);
        out.step_ms +=
            out.model.drafted_step(r.machine.practical, r.tree_rows, tokens, r.overlap).total_ms /
            static_cast<double>(r.contexts.size());
    }
    const std::uint64_t longest = *std::max_element(r.contexts.begin(), r.contexts.end());
    out.fits =
        out.memory.fits() && out.memory.capacity_tokens >= std::max(longest, r.capacity_tokens);
    return out;
}

// What a candidate gives up: precision first, then exchanges.
auto sacrifice(const Candidate &c) {
    const Placement &p = c.model.placement();
    return std::tuple(c.model.kv_format() != KvFormat::bf16, p.attention, p.split_q_a, p.split_kv_a,
                      p.split_router, p.expert_groups);
}

// The reasons, each from the same choice with one thing changed.
class Reasons {
  public:
    Reasons(Planner &planner, const Candidate &choice) : planner_(planner), choice_(choice) {}

    std::vector<std::string> all() const {
        std::vector<std::string> out;
        if (choice_.model.placement().ranks > 1) out = {experts(), attention(), replication()};
        out.push_back(kv());
        return out;
    }

  private:
    template <typename Change>
    Candidate other(Change &&change) const {
        Placement placement = choice_.model.placement();
        KvFormat kv = choice_.model.kv_format();
        change(placement, kv);
        check_placement(placement, planner_.request().dims);
        return evaluate(planner_, placement, kv);
    }
    std::string compared(const Candidate &other) const {
        return cat(signed_ms(other.step_ms - choice_.step_ms), " per step",
                   other.fits            ? ""
                   : other.memory.fits() ? ", but too few tokens fit"
                                         : ", but does not fit");
    }

    std::string experts() const {
        const Placement &p = choice_.model.placement();
        const std::uint32_t rows = planner_.request().tree_rows;
        std::string out = cat("experts: the busiest rank reads ",
                              fixed(choice_.model.routing().load(rows).distinct_ratio, 2),
                              "x the mean at ", rows, " rows");
        for (const std::uint32_t groups : {1U, 2U, p.ranks}) {
            if (groups == p.expert_groups || p.ranks % groups != 0) continue;
            try {
                const Candidate c =
                    other([&](Placement &q, KvFormat &) { q.expert_groups = groups; });
                out +=
                    cat("; ", groups, groups == 1 ? " group " : " groups ",
                        fixed(c.model.routing().load(rows).distinct_ratio, 2), "x, ", compared(c));
            } catch (const Error &) {
                // does not divide
            }
        }
        return out;
    }

    std::string attention() const {
        const bool tensor = choice_.model.placement().attention == AttentionSplit::tensor;
        const Candidate c = other([&](Placement &p, KvFormat &) {
            p.attention = tensor ? AttentionSplit::context : AttentionSplit::tensor;
        });
        return cat("attention: ", tensor ? "tensor" : "context", " holds ",
                   choice_.memory.capacity_tokens, " tokens; ", tensor ? "context " : "tensor ",
                   c.memory.capacity_tokens, ", ", compared(c));
    }

    std::string replication() const {
        const Placement &p = choice_.model.placement();
        const Candidate latents =
            other([](Placement &q, KvFormat &) { q.split_q_a = q.split_kv_a = !q.split_q_a; });
        const Candidate router =
            other([](Placement &q, KvFormat &) { q.split_router = !q.split_router; });
        const auto word = [](bool split) { return split ? "split" : "replicated"; };
        return cat("q_a and kv_a ", word(p.split_q_a), ": ", word(!p.split_q_a), ' ',
                   compared(latents), "; router ", word(p.split_router), ": ",
                   word(!p.split_router), ' ', compared(router));
    }

    std::string kv() const {
        const bool bf16 = choice_.model.kv_format() == KvFormat::bf16;
        const Candidate c =
            other([&](Placement &, KvFormat &kv) { kv = bf16 ? KvFormat::fp8 : KvFormat::bf16; });
        return cat("KV: ", bf16 ? "bf16" : "fp8", " holds ", choice_.memory.capacity_tokens,
                   " tokens; ", bf16 ? "fp8 " : "bf16 ", c.memory.capacity_tokens, ", ",
                   compared(c));
    }

    Planner &planner_;
    const Candidate &choice_;
};

}  // namespace

CostModel Planner::model(const Placement &p, KvFormat kv) {
    const TargetDims &dims = request_.dims.target;
    const std::pair key(p.expert_groups, p.expert_replicas);
    auto routing = routings_.find(key);
    if (routing == routings_.end()) {
        const std::uint32_t rows =
            std::max({request_.limits.chunk_rows, request_.limits.tree_rows, request_.tree_rows});
        const bool uniform = request_.counts.empty();
        const ExpertMap map = uniform ? ExpertMap::in_order(dims, p.expert_groups)
                                      : ExpertMap::balanced(dims, request_.counts, p.expert_groups,
                                                            p.expert_replicas);
        routing = routings_
                      .emplace(key, uniform ? Routing(dims, map, rows)
                                            : Routing(dims, map, rows, request_.counts))
                      .first;
    }
    return CostModel(request_.dims, p, request_.machine, kv, routing->second);
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

std::vector<Candidate> search(Planner &planner) {
    const PlanRequest &r = planner.request();
    std::vector<Candidate> out;
    for (const Placement &p : possible_placements(r.dims, r.machine.devices))
        for (const KvFormat kv : {KvFormat::bf16, KvFormat::fp8})
            out.push_back(evaluate(planner, p, kv));
    std::stable_sort(out.begin(), out.end(), [](const Candidate &a, const Candidate &b) {
        return std::tuple(!a.fits, a.step_ms) < std::tuple(!b.fits, b.step_ms);
    });
    return out;
}

std::optional<Recommendation> recommend(Planner &planner,
                                        const std::vector<Candidate> &candidates) {
    const Candidate *best = nullptr;
    for (const Candidate &c : candidates) {
        if (!c.fits || c.step_ms > candidates[0].step_ms * kTie) continue;
        if (best == nullptr || sacrifice(c) < sacrifice(*best)) best = &c;
    }
    if (best == nullptr) return std::nullopt;
    return Recommendation{*best, Reasons(planner, *best).all()};
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
