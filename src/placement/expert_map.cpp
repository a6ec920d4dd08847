#include "placement/expert_map.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace kimi {
namespace {

// How often each expert is held: one more copy for the one with the most tokens per copy, again
// and again.
std::vector<std::uint32_t> choose_copies(std::span<const double> counts, std::uint32_t groups,
                                         std::uint32_t replicas) {
    std::vector<std::uint32_t> copies(counts.size(), 1);
    for (std::uint32_t i = 0; i < replicas; ++i) {
        std::size_t best = counts.size();
        for (std::size_t e = 0; e < counts.size(); ++e)
            if (copies[e] < groups &&
                (best == counts.size() || counts[e] / copies[e] > counts[best] / copies[best]))
                best = e;
        KIMI_CHECK(best < counts.size());
        ++copies[best];
    }
    return copies;
}

// Heaviest copies first, each to the least busy group that has room.
ExpertLists spread(std::span<const double> counts, std::span<const std::uint32_t> copies,
                   std::uint32_t n_groups) {
    const std::size_t room =
        std::accumulate(copies.begin(), copies.end(), std::size_t{0}) / n_groups;
    std::vector<std::uint16_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::uint16_t{0});
    // Experts with several copies come first, and to the groups that hold fewest: these then never
    // differ by more than one, so that all copies find different groups with room.
    std::stable_sort(order.begin(), order.end(), [&](std::uint16_t a, std::uint16_t b) {
        return std::tuple(copies[a] == 1, -counts[a] / copies[a]) <
               std::tuple(copies[b] == 1, -counts[b] / copies[b]);
    });
    ExpertLists held(n_groups);
    std::vector<double> load(n_groups, 0);
    std::vector<std::uint32_t> groups(n_groups);
    std::iota(groups.begin(), groups.end(), 0U);
    for (const std::uint16_t e : order) {
        const auto rank = [&](std::uint32_t g) {
            return std::tuple(copies[e] > 1 ? held[g].size() : held[g].size() / room, load[g]);
        };
        std::stable_sort(groups.begin(), groups.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });
        for (std::uint32_t i = 0; i < copies[e]; ++i) {
            held[groups[i]].push_back(e);
            load[groups[i]] += counts[e] / copies[e];
        }
    }
    for (auto &experts : held) std::sort(experts.begin(), experts.end());
    return held;
}

}  // namespace

ExpertCounts read_expert_counts(const std::string &path, const TargetDims &dims) {
    const Json root = parse_json(read_file(path, std::size_t{1} << 26), path);
    const auto bad = [&](const auto &...parts) {
        fail(KIMI_INVALID_ARGUMENT, path, ": field expert_counts", parts...);
    };
    const Json *layers = root.find("expert_counts");
    if (layers == nullptr) bad(" is missing");
    if (layers->items.size() != dims.n_moe_layers())
        bad(" has ", layers->items.size(), " layers, the model has ", dims.n_moe_layers(),
            " with experts");
    ExpertCounts out;
    for (const Json &layer : layers->items) {
        const std::string where = cat("[", out.size(), "]");
        if (layer.items.size() != dims.n_experts)
            bad(where, " has ", layer.items.size(), " counts, the model has ", dims.n_experts,
                " experts");
        std::vector<double> counts;
        for (const Json &count : layer.items) {
            const bool is_number = count.is(Json::Kind::integer) || count.is(Json::Kind::real);
            if (!is_number || !(count.real >= 0 && count.real <= 1e15))
                bad(where, "[", counts.size(), "] is ", dump_json(count),
                    ", must be a number from 0 to 1e15");
            counts.push_back(count.real);
        }
        // A token picks an expert once at most.
        const double most = *std::max_element(counts.begin(), counts.end());
        const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
        if (most == 0 || most > sum / dims.top_k * (1 + 1e-9))
            bad(where, " has an expert with ", most, " of ", sum, " tokens, with ", dims.top_k,
                " experts per token at most ", sum / dims.top_k, " are possible");
        out.push_back(std::move(counts));
    }
    return out;
}

ExpertMap ExpertMap::in_order(const TargetDims &dims, std::uint32_t n_groups) {
    ExpertLists experts(n_groups);
    for (std::uint32_t e = 0; e < dims.n_experts; ++e)
        experts[e / (dims.n_experts / n_groups)].push_back(static_cast<std::uint16_t>(e));
    ExpertMap map(n_groups);
    for (std::uint32_t i = 0; i < dims.n_moe_layers(); ++i) map.add_layer(experts, dims.n_experts);
    return map;
}

ExpertMap ExpertMap::balanced(const TargetDims &dims, const ExpertCounts &counts,
                              std::uint32_t n_groups, std::uint32_t replicas) {
    ExpertMap map(n_groups);
    for (const std::vector<double> &layer : counts)
        map.add_layer(spread(layer, choose_copies(layer, n_groups, replicas), n_groups),
                      dims.n_experts);
    return map;
}

void ExpertMap::add_layer(ExpertLists experts, std::uint32_t n_experts) {
    ExpertLists groups(n_experts);
    for (std::size_t g = 0; g < experts.size(); ++g)
        for (const std::uint16_t e : experts[g]) groups[e].push_back(static_cast<std::uint16_t>(g));
    layers_.push_back({std::move(experts), std::move(groups)});
}

}  // namespace kimi
