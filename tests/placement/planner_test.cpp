#include "placement/planner.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "fixtures.h"
#include "tools/plan/plan.h"
#include "tools/synth/write.h"

using namespace kimi;
using namespace kimi::test;

namespace {

PlanRequest request() {
    PlanRequest r;
    r.dims = k26();
    r.machine = rtx();
    r.contexts = {4096, 46000, 185000};
    return r;
}

// What is recommended for a request.
struct Chosen {
    Placement placement;
    KvFormat kv;
    std::uint64_t capacity;
    std::vector<std::string> reasons;
};

Chosen chosen(const PlanRequest &r) {
    const std::vector<Candidate> candidates = search(r);
    const auto out = recommend(candidates, r.tree_rows);
    REQUIRE(out);
    const CostModel &model = out->choice->model;
    return {model.placement(), model.kv_format(), out->choice->memory.capacity_tokens,
            out->reasons};
}

// Best-first expansion as DDTree does it.
double best_first_tokens(const DraftQuality &q, std::uint32_t n_nodes) {
    struct Node {
        double p;
        std::uint32_t depth, rank;
    };
    std::vector<Node> heap = {{q.top_1, 1, 0}};
    double tokens = 1;
    for (std::uint32_t i = 0; i < n_nodes; ++i) {
        const auto best = std::max_element(heap.begin(), heap.end(),
                                           [](const Node &a, const Node &b) { return a.p < b.p; });
        const Node n = *best;
        heap.erase(best);
        tokens += n.p;
        heap.push_back({n.p * (1 - q.top_1), n.depth, n.rank + 1});
        if (n.depth < q.offsets) heap.push_back({n.p * q.top_1, n.depth + 1, 0});
    }
    return tokens;
}

// K2.6's config.json, its drafter's, and the part of an index that matters; no weights.
const TempDir &k26_folder() {
    static const TempDir dir;
    dir.write("config.json", synth::target_config(synth::k26_shape()));
    dir.write("model.safetensors.index.json", R"({"weight_map": {
        "language_model.model.layers.1.mlp.experts.0.gate_proj.weight_packed": "a.safetensors"}})");
    dir.write("drafter/config.json", synth::drafter_config(synth::k26_shape()));
    return dir;
}

nlohmann::json plan_json(std::vector<const char *> args) {
    args.push_back("--json");
    return nlohmann::json::parse(plan::run(args));
}

}  // namespace

TEST_CASE("planner: K2.6 on eight cards wants tensor slices and local attention") {
    PlanRequest r = request();
    const Chosen best = chosen(r);
    CHECK(best.placement.ranks == 8);
    CHECK(best.placement.attention == AttentionSplit::tensor);
    CHECK(best.placement.expert_groups == 1);
    // 185k tokens fit in bf16, at the same speed.
    CHECK(best.kv == KvFormat::bf16);
    CHECK(best.capacity >= 185000);
    REQUIRE(best.reasons.size() == 6);
    CHECK(best.reasons[1].starts_with("8 expert groups: +"));
    CHECK(contains(best.reasons[1], "busiest rank 1.46x the mean"));

    r.capacity_tokens = 400'000;
    const Chosen large = chosen(r);
    CHECK(large.kv == KvFormat::fp8);
    CHECK(large.placement.attention == AttentionSplit::tensor);
    CHECK(contains(large.reasons.back(), "KV bf16: "));
    CHECK(contains(large.reasons.back(), "tokens fit, too few"));
    r.capacity_tokens = 1'000'000;
    CHECK(chosen(r).placement.attention == AttentionSplit::context);
    r.capacity_tokens = 10'000'000;
    CHECK(!recommend(search(r), r.tree_rows));
}

TEST_CASE("planner: one-token steps at long context want the KV split") {
    PlanRequest r = request();
    r.tree_rows = 1;
    r.contexts = {185000};
    // 8.5 instead of 10.2 ms: the practical bounds of the roofline script.
    CHECK(chosen(r).placement.attention == AttentionSplit::context);
    r.contexts = {4096};
    CHECK(chosen(r).placement.attention == AttentionSplit::tensor);
}

TEST_CASE("planner: a small model stays on one device") {
    PlanRequest r = request();
    r.dims = nano_k2();
    r.contexts = {4096};
    CHECK(chosen(r).placement == Placement());
}

TEST_CASE("planner: the search is ordered and complete") {
    const std::vector<Candidate> all = search(request());
    CHECK(all.size() == 2 * possible_placements(k26(), 8).size());
    for (std::size_t i = 1; i < all.size(); ++i) {
        CHECK(all[i - 1].fits >= all[i].fits);
        if (all[i - 1].fits == all[i].fits) CHECK(all[i - 1].step_ms <= all[i].step_ms);
    }
    CHECK(all[0].model.placement().ranks == 8);
}

TEST_CASE("planner: the tokens of the best tree") {
    for (const double tokens : {2.0, 4.0, 7.0}) {
        const DraftQuality q = quality_for(tokens, 7);
        double chain = 1;
        for (int i = 1; i <= 7; ++i) chain += std::pow(q.top_1, i);
        CHECK(chain == doctest::Approx(tokens));
        for (const std::uint32_t n : {0U, 1U, 8U, 24U, 63U})
            CHECK(expected_tokens(q, n) == doctest::Approx(best_first_tokens(q, n)));
    }
    CHECK(expected_tokens(quality_for(8, 7), 7) == doctest::Approx(8));
}

TEST_CASE("planner: the budget ends where a node costs more than it brings") {
    PlanRequest r = request();
    r.dims = k26(true);
    const CostModel model = cost_model(r, placement(8), KvFormat::fp8);
    const Rates &rates = r.machine.practical;
    std::uint32_t last = 0;
    for (const double tokens : {3.0, 4.0, 5.0}) {
        const DraftQuality q = quality_for(tokens, 7);
        const TreeBudget best = best_budget(model, rates, 46000, 1, q, 63);
        CAPTURE(best.nodes);
        const auto rate = [&](std::uint32_t n) {
            return expected_tokens(q, n) / model.drafted_step(rates, n + 1, 46000).total_ms;
        };
        CHECK(best.nodes >= 1);
        CHECK(rate(best.nodes) >= rate(best.nodes + 1));
        CHECK(rate(best.nodes) >= rate(best.nodes - 1));
        CHECK(best.nodes >= last);
        last = best.nodes;
    }
    // A drafter that is nearly always wrong is not worth its time.
    CHECK(best_budget(model, rates, 46000, 1, {0.05, 7}, 63).nodes == 0);
}

TEST_CASE("kimi-plan: a checkpoint folder without weights") {
    const TempDir &dir = k26_folder();
    dir.write("model.safetensors.index.json",
              synth::index_json(synth::target_layout(synth::k26_shape(), true)));
    const auto report = plan_json({dir.path().c_str(), "--context", "4096", "185000", "--search"});
    CHECK(!report.contains("deployment"));
    const auto &best = report["recommended"];
    CHECK(best["placement"]["ranks"] == 8);
    CHECK(best["contexts"].size() == 2);
    CHECK(best["contexts"][1]["context"] == 185000);
    CHECK(report["search"].size() == 146);
    CHECK(report["capacity_asked"] == 262144);
    check_near(best["experts"][1]["distinct"], 66.28, 0.001);
}

TEST_CASE("kimi-plan: a deployment, as JSON and as a table with the same numbers") {
    const TempDir &dir = k26_folder();
    const std::string path = dir.write("d.json", R"({"checkpoint": ".", "ranks": 8,
        "kv": {"type": "fp8", "capacity_tokens": 200000}})");
    const auto report = plan_json({path.c_str(), "--context", "46000"});
    const auto &plan = report["deployment"];
    // An eighth of everything but q_a, kv_a, router and norms, 2,179,342,336 B.
    CHECK(plan["memory"]["weights_bytes"] == (594'205'351'936 - 2'179'342'336) / 8 + 2'179'342'336);
    CHECK(plan["kv"] == "fp8");
    const auto &context = plan["contexts"][0];
    // Nine rows take 18.59 ms with KV of 576 B; 656 B change nothing, arithmetic takes longer.
    check_near(context["practical"]["verify"]["total_ms"], 18.59);
    check_near(context["practical"]["verify"]["accepted"][1]["tokens_per_s"], 215);
    check_near(context["ideal"]["verify"]["weights_ms"], 9.41);
    CHECK(context["attention"]["splits"] == 180);

    const std::string table =
        plan::run(std::vector<const char *>{path.c_str(), "--context", "46000"});
    CHECK(contains(table, "Deployment: 8 ranks, attention tensor, experts tensor"));
    char total[32];
    std::snprintf(total, sizeof total, "%.2f",
                  context["practical"]["verify"]["total_ms"].get<double>());
    CHECK(contains(table, total));
    CHECK(contains(table, "Recommended: 8 ranks"));
}

TEST_CASE("kimi-plan: memory of graphs is kept free of KV") {
    const TempDir &dir = k26_folder();
    const auto memory = [&](const std::string &graphs) {
        const std::string path =
            dir.write("d.json", cat(R"({"checkpoint": ".", "ranks": 8, "graphs": )", graphs, "}"));
        return plan_json({path.c_str(), "--context", "4096"})["deployment"]["memory"];
    };
    const auto few = memory(R"({"memory_mib": 100})"), many = memory(R"({"memory_mib": 1100})");
    const auto none = memory(R"({"eager": true, "memory_mib": 100})");
    CHECK(none["graphs_bytes"] == 0);
    CHECK(few["graphs_bytes"] == 100 << 20);
    CHECK(memory("{}")["graphs_bytes"] == std::uint64_t{4096} << 20);
    const double fewer =
        few["capacity_tokens"].get<double>() - many["capacity_tokens"].get<double>();
    CHECK(std::fabs(fewer * few["kv_bytes_per_token"].get<double>() - (1000 << 20)) <=
          64 * few["kv_bytes_per_token"].get<double>());
}

TEST_CASE("kimi-plan: drafters, recorded routing and other machines") {
    const TempDir &dir = k26_folder();
    nlohmann::json counts;
    counts["expert_counts"] = std::vector(60, std::vector<int>(384, 3));
    counts["expert_counts"][7][3] = 20;
    const std::string routing = dir.write("counts.json", counts.dump());
    const std::string path = dir.write("d.json", R"({"checkpoint": ".", "drafter": "drafter",
        "ranks": 8, "placement": {"experts": "expert", "expert_replicas": 8,
        "expert_counts": "counts.json"}})");
    const auto report = plan_json({path.c_str(), "--context", "4096", "--overlap", "0.69"});
    CHECK(contains(report["deployment"]["placement"]["text"].get<std::string>(),
                   "experts whole, balanced, 8 replicas"));
    CHECK(report["routing"] == "recorded");
    const auto &plan = report["deployment"];
    CHECK(plan["placement"]["expert_replicas"] == 8);
    // A 49th expert per rank and layer.
    check_near(plan["memory"]["weights"]["experts"].get<double>(), 71.345e9 * 49 / 48, 0.0001);
    check_near(plan["experts"][1]["busiest_over_mean"], 1.46);
    CHECK(plan["contexts"][0]["tree_budget"].size() == 2);
    check_near(plan["memory"]["drafter_bytes"].get<double>(), 0.87e9);

    const Json machine = read_json(source("examples/machines/rtx-pro-6000x8.json"));
    std::string four = dump_json(machine);
    four.replace(four.find("\"devices\": 8"), 12, "\"devices\": 4");
    const std::string small = dir.write("four.json", four);
    const auto none = plan_json({dir.path().c_str(), "--machine", small.c_str()});
    CHECK(!none.contains("recommended"));
    const std::string table =
        plan::run(std::vector<const char *>{dir.path().c_str(), "--machine", small.c_str()});
    CHECK(contains(table, "No placement fits"));
    const auto text = [](std::vector<const char *> args) {
        return error_of([&] { plan::run(args); }).text;
    };
    CHECK(contains(text({path.c_str(), "--machine", small.c_str()}),
                   "field ranks: is 8, the machine has 4 devices"));
    CHECK(contains(text({dir.path().c_str(), "--routing", small.c_str()}),
                   "field expert_counts is missing"));
}

TEST_CASE("kimi-plan: bad arguments are named") {
    const std::string model = nano();
    const auto text = [](std::vector<const char *> args) {
        const Error error = error_of([&] { plan::run(args); });
        return error.text;
    };
    CHECK(contains(text({}), "no deployment is given"));
    CHECK(contains(text({"a", "b"}), "unknown option b"));
    CHECK(contains(text({"a", "--nodes"}), "--nodes needs a value"));
    CHECK(
        contains(text({"a", "--nodes", "65"}), "--nodes is \"65\", must be a number from 1 to 64"));
    CHECK(contains(text({"a", "--overlap", "x"}), "--overlap is \"x\""));
    CHECK(contains(text({"a", "--context", "-1"}), "--context is \"-1\""));
    CHECK(contains(text({model.c_str(), "--context", "300000"}),
                   "--context is 300000, the context limit is 262144"));
    CHECK(contains(text({"/nonexistent"}), "/nonexistent"));
    CHECK(contains(plan::run(std::vector<const char *>{"--help"}), "usage: kimi-plan DEPLOYMENT"));
}
