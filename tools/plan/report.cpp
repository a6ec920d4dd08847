#include "tools/plan/report.h"

#include <cmath>

namespace kimi::plan {
namespace {

Report placement_report(const Placement &p) {
    const auto word = [](bool split) { return split ? "split" : "replicated"; };
    return {{"text", describe(p)},
            {"ranks", p.ranks},
            {"attention", p.attention == AttentionSplit::tensor ? "tensor" : "context"},
            {"expert_groups", p.expert_groups},
            {"expert_slices", p.slices()},
            {"expert_replicas", p.expert_replicas},
            {"q_a", word(p.split_q_a)},
            {"kv_a", word(p.split_kv_a)},
            {"router", word(p.split_router)}};
}

Report memory_report(const CostModel &model, const DeviceMemory &m) {
    Report parts;
    for (std::size_t i = 0; i < kWeightParts; ++i)
        parts[std::string(part_name(static_cast<WeightPart>(i)))] =
            static_cast<std::uint64_t>(model.held_bytes()[static_cast<WeightPart>(i)]);
    return {{"weights_bytes", m.weights},
            {"drafter_bytes", m.drafter},
            {"workspace_bytes", m.workspace},
            {"graphs_bytes", m.graphs},
            {"reserved_bytes", m.reserved},
            {"total_bytes", m.total},
            {"kv_bytes_per_token", m.token},
            {"capacity_tokens", m.capacity_tokens},
            {"fits", m.fits()},
            {"weights", parts}};
}

// Of one of n passes that together process or commit this many tokens.
Report cost_report(const StepCost &c, double tokens, double n = 1) {
    return {{"weights_ms", c.weights_ms / n},
            {"matmul_ms", c.matmul_ms / n},
            {"kv_ms", c.kv_ms / n},
            {"attention_ms", c.attention_ms / n},
            {"collectives_ms", c.collectives_ms / n},
            {"draft_ms", c.draft_ms / n},
            {"total_ms", c.total_ms / n},
            {"tokens_per_s", tokens / c.total_ms * 1e3}};
}

// One chunk, the mean of a prompt's.
Report prefill_report(const PlanRequest &r, const CostModel &model, const Rates &rates,
                      double tokens) {
    const StepCost prompt =
        model.prefill(rates, static_cast<std::uint64_t>(tokens), r.limits.chunk_rows);
    return cost_report(prompt, tokens, std::ceil(tokens / r.limits.chunk_rows));
}

Report verify_report(const PlanRequest &r, const CostModel &model, const Rates &rates,
                     double context) {
    const auto cost = [&](std::uint32_t rows) {
        return model.drafted_step(rates, rows, context, r.overlap);
    };
    const StepCost step = cost(r.tree_rows);
    const double price_ms = cost(r.tree_rows + 1).total_ms - step.total_ms;
    Report out = cost_report(step, 1);
    out["next_row_ms"] = price_ms;
    for (const double tokens : kAcceptance)
        out["accepted"].push_back({{"tokens_per_step", tokens},
                                   {"tokens_per_s", tokens / step.total_ms * 1e3},
                                   {"next_row_must_add", price_ms / step.total_ms * tokens}});
    return out;
}

// The tree that pays most, for drafters of some qualities.
Report budget_report(const PlanRequest &r, const CostModel &model, double context) {
    Report out = Report::array();
    if (!r.dims.drafter) return out;
    const Rates &rates = r.machine.practical;
    const std::uint32_t offsets = r.dims.drafter->block_size - 1;
    for (const double tokens : kAcceptance) {
        if (tokens <= 1 || tokens > offsets + 1) continue;
        const DraftQuality quality = quality_for(tokens, offsets);
        const TreeBudget best =
            best_budget(model, rates, context, r.overlap, quality, r.limits.tree_rows - 1);
        const double next_ms =
            model.drafted_step(rates, best.nodes + 2, context, r.overlap).total_ms - best.step_ms;
        out.push_back({{"chain_tokens_per_step", tokens},
                       {"nodes", best.nodes},
                       {"tokens_per_step", best.tokens},
                       {"step_ms", best.step_ms},
                       {"tokens_per_s", best.tokens / best.step_ms * 1e3},
                       {"next_node_adds", expected_tokens(quality, best.nodes + 1) - best.tokens},
                       {"next_node_must_add", next_ms / best.step_ms * best.tokens}});
    }
    return out;
}

Report context_report(const PlanRequest &r, const CostModel &model, std::uint64_t tokens) {
    const double context = static_cast<double>(tokens);
    const AttentionGrid grid = model.attention_grid(r.tree_rows, tokens);
    Report out = {{"context", tokens},
                  {"attention",
                   {{"splits", grid.splits},
                    {"tiles_per_split", grid.tiles_per_split},
                    {"blocks_unfolded", grid.unfolded},
                    {"blocks_folded", grid.folded}}}};
    for (const auto &[name, rates] :
         {std::pair("ideal", &r.machine.ideal), std::pair("practical", &r.machine.practical)})
        out[name] = {{"prefill", prefill_report(r, model, *rates, context)},
                     {"token", cost_report(model.step(*rates, 1, context), 1)},
                     {"verify", verify_report(r, model, *rates, context)}};
    out["tree_budget"] = budget_report(r, model, context);
    return out;
}

Report plan_report(const PlanRequest &r, const CostModel &model) {
    Report out = {{"placement", placement_report(model.placement())},
                  {"kv", kv_format_name(model.kv_format())},
                  {"memory", memory_report(model, model.memory(r.limits))}};
    for (const std::uint32_t rows : {1U, r.tree_rows})
        out["experts"].push_back(
            {{"rows", rows},
             {"distinct", model.routing().distinct_experts(rows)},
             {"busiest_over_mean", model.routing().load(rows).distinct_ratio}});
    for (const std::uint64_t context : r.contexts)
        out["contexts"].push_back(context_report(r, model, context));
    return out;
}

}  // namespace

Report make_report(const PlanRequest &r, const std::optional<Placement> &placement, KvFormat kv,
                   bool with_search) {
    Report out = {{"machine",
                   {{"name", r.machine.name},
                    {"devices", r.machine.devices},
                    {"multiprocessors", r.machine.multiprocessors}}},
                  {"routing", r.counts.empty() ? "uniform" : "recorded"},
                  {"verify_rows", r.tree_rows},
                  {"chunk_rows", r.limits.chunk_rows},
                  {"capacity_asked", r.capacity_tokens}};
    if (placement) out["deployment"] = plan_report(r, cost_model(r, *placement, kv));
    const std::vector<Candidate> candidates = search(r);
    if (const auto best = recommend(candidates, r.tree_rows)) {
        out["recommended"] = plan_report(r, best->choice->model);
        out["recommended"]["reasons"] = best->reasons;
    }
    if (!with_search) return out;
    for (const Candidate &c : candidates)
        out["search"].push_back({{"placement", describe(c.model.placement())},
                                 {"kv", kv_format_name(c.model.kv_format())},
                                 {"fits", c.fits},
                                 {"weights_bytes", c.memory.weights + c.memory.drafter},
                                 {"capacity_tokens", c.memory.capacity_tokens},
                                 {"step_ms", c.step_ms}});
    return out;
}

}  // namespace kimi::plan
