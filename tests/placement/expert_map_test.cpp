#include "placement/expert_map.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "fixtures.h"

using namespace kimi;
using namespace kimi::test;

namespace {

TargetDims small_dims() {
    TargetDims d = k26().target;
    d.n_layers = 3, d.n_experts = 64;
    return d;
}

// Tokens per expert fall like 1 / rank^0.5, in another order in each layer.
ExpertCounts skewed_counts(const TargetDims &d) {
    ExpertCounts out;
    for (std::uint32_t layer = 0; layer < d.n_moe_layers(); ++layer) {
        out.emplace_back();
        for (std::uint32_t e = 0; e < d.n_experts; ++e)
            out.back().push_back(1000 / std::sqrt(1.0 + (e * 37 + layer * 11) % d.n_experts));
    }
    return out;
}

// Tokens of the busiest group over the mean, over all layers.
double imbalance(const ExpertMap &map, const ExpertCounts &counts) {
    double worst = 0;
    for (std::uint32_t layer = 0; layer < counts.size(); ++layer) {
        std::vector<double> load(map.n_groups());
        for (std::uint32_t e = 0; e < counts[layer].size(); ++e) {
            const auto groups = map.groups_of(layer, e);
            for (const std::uint16_t g : groups)
                load[g] += counts[layer][e] / double(groups.size());
        }
        worst = std::max(worst, *std::max_element(load.begin(), load.end()) * map.n_groups() /
                                    std::accumulate(load.begin(), load.end(), 0.0));
    }
    return worst;
}

}  // namespace

TEST_CASE("expert map: in order, 48 of 384 experts on each of eight ranks") {
    const ExpertMap map = ExpertMap::in_order(k26().target, 8);
    for (std::uint32_t g = 0; g < 8; ++g) {
        CHECK(map.experts_of(59, g).size() == 48);
        CHECK(map.experts_of(59, g).front() == 48 * g);
    }
    CHECK(map.group_for(0, 47, 5) == 0);
    CHECK(map.group_for(0, 48, 5) == 1);
}

TEST_CASE("expert map: balanced groups hold every expert, equally many, and none twice") {
    const TargetDims dims = small_dims();
    const ExpertCounts counts = skewed_counts(dims);
    for (const std::uint32_t groups : {1U, 2U, 4U, 8U})
        for (std::uint32_t replicas = 0; replicas <= dims.n_experts * (groups - 1);
             replicas += groups) {
            CAPTURE(groups);
            CAPTURE(replicas);
            const ExpertMap map = ExpertMap::balanced(dims, counts, groups, replicas);
            for (std::uint32_t layer = 0; layer < dims.n_moe_layers(); ++layer) {
                std::set<std::uint16_t> all;
                for (std::uint32_t g = 0; g < groups; ++g) {
                    const auto held = map.experts_of(layer, g);
                    CHECK(held.size() == (dims.n_experts + replicas) / groups);
                    CHECK(std::set(held.begin(), held.end()).size() == held.size());
                    all.insert(held.begin(), held.end());
                    for (const std::uint16_t e : held) {
                        const auto holders = map.groups_of(layer, e);
                        CHECK(std::count(holders.begin(), holders.end(), g) == 1);
                    }
                }
                CHECK(all.size() == dims.n_experts);
            }
        }
}

TEST_CASE("expert map: recorded counts balance the groups, replicas further") {
    const TargetDims dims = k26().target;
    const ExpertCounts counts = skewed_counts(dims);
    CHECK(imbalance(ExpertMap::in_order(dims, 8), counts) > 1.05);
    CHECK(imbalance(ExpertMap::balanced(dims, counts, 8, 0), counts) < 1.03);
    // One expert gets as many tokens as a group should: only copies help.
    ExpertCounts hot = counts;
    for (auto &layer : hot) layer[5] = std::accumulate(layer.begin(), layer.end(), 0.0) / 7;
    const double without = imbalance(ExpertMap::balanced(dims, hot, 8, 0), hot);
    const ExpertMap map = ExpertMap::balanced(dims, hot, 8, 8);
    CHECK(without > 1.4);
    CHECK(imbalance(map, hot) < 1.1);
    // Tokens take the copies in turn.
    const auto holders = map.groups_of(0, 5);
    REQUIRE(holders.size() > 1);
    CHECK(map.group_for(0, 5, 0) == holders[0]);
    CHECK(map.group_for(0, 5, 1) == holders[1]);
    CHECK(map.group_for(0, 5, holders.size()) == holders[0]);
}

TEST_CASE("expert map: recorded counts that cannot be are named") {
    TargetDims dims = small_dims();
    dims.n_experts = 4, dims.top_k = 2;
    const TempDir dir;
    const auto read = [&](std::string_view layers) {
        return read_expert_counts(
            dir.write("counts.json", cat("{\"expert_counts\": [", layers, "]}")), dims);
    };
    const ExpertCounts counts = read("[1, 2, 3, 2], [4, 4, 0, 0]");
    CHECK(counts == ExpertCounts{{1, 2, 3, 2}, {4, 4, 0, 0}});
    const auto text = [&](std::string_view layers) {
        const Error error = error_of([&] { read(layers); });
        CHECK(error.status == KIMI_INVALID_ARGUMENT);
        CHECK(contains(error.text, dir.file("counts.json")));
        return error.text;
    };
    CHECK(contains(text("[1, 2, 3, 2]"), "expert_counts has 1 layers, the model has 2"));
    CHECK(contains(text("[1, 2, 3, 2], [1, 2, 3]"),
                   "expert_counts[1] has 3 counts, the model has 4"));
    CHECK(contains(text("[1, 2, 3, 2], [1, 2, 3, -1]"), "expert_counts[1][3] is -1"));
    CHECK(contains(text("[1, 2, 3, 2], [1, 2, 3, \"4\"]"), "expert_counts[1][3] is \"4\""));
    CHECK(
        contains(text("[1, 2, 3, 2], [0, 0, 0, 0]"), "expert_counts[1] has an expert with 0 of 0"));
    CHECK(contains(text("[1, 2, 3, 2], [5, 1, 1, 1]"),
                   "expert_counts[1] has an expert with 5 of 8 tokens, with 2 experts per token at "
                   "most 4 are possible"));
    CHECK(contains(error_of([&] { read_expert_counts(dir.write("x.json", "{}"), dims); }).text,
                   "field expert_counts is missing"));
}
