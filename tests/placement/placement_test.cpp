#include "placement/placement.h"

#include <map>

#include "fixtures.h"

using namespace kimi;
using namespace kimi::test;

namespace {

// The distinct shards of a weight on these ranks cover every element once, in equal numbers of
// copies.
void check_covered(const PlacedWeight &w, const Placement &p, std::uint32_t first,
                   std::uint32_t n_ranks) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Shard> by_begin;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> copies;
    for (std::uint32_t rank = first; rank < first + n_ranks; ++rank) {
        const Shard s = shard_of(w, p, rank);
        const std::pair begin(s.row_begin, s.col_begin);
        CHECK(by_begin.emplace(begin, s).first->second == s);
        ++copies[begin];
    }
    CHECK(by_begin.size() == w.cuts);
    std::uint32_t row = 0, col = 0;
    for (const auto &[begin, s] : by_begin) {
        CHECK(copies[begin] == n_ranks / w.cuts);
        CHECK(s.row_begin == (w.axis == SplitAxis::rows ? row : 0));
        CHECK(s.col_begin == (w.axis == SplitAxis::cols ? col : 0));
        row = s.row_begin + s.n_rows;
        col = s.col_begin + s.n_cols;
        CHECK(std::uint64_t{s.n_rows} * s.n_cols == shard_elements(w));
    }
    CHECK(row == w.rows);
    CHECK(col == w.cols);
}

const PlacedWeight &find(const std::vector<PlacedWeight> &weights, std::string_view name,
                         WeightPart part) {
    for (const PlacedWeight &w : weights)
        if (w.name == name && w.part == part) return w;
    FAIL("no weight " << name);
    return weights[0];
}

std::string error_text(const Placement &p, const ModelDims &dims) {
    const Error error = error_of([&] { check_placement(p, dims); });
    CHECK(error.status == KIMI_INVALID_ARGUMENT);
    return error.text;
}

}  // namespace

TEST_CASE("placement: the shards of all ranks cover every weight") {
    for (const ModelDims &dims : {k26(true), nano_k2()}) {
        const std::vector<Placement> placements = possible_placements(dims, 8);
        // 1, 2, 4 and 8 ranks; 2, 3 and 4 expert groupings; attention, latents and router.
        CHECK(placements.size() == 1 + 8 * (2 + 3 + 4));
        for (const Placement &p : placements) {
            CAPTURE(describe(p));
            for (const PlacedWeight &w : place_weights(p, dims)) {
                CAPTURE(w.name);
                if (w.part != WeightPart::experts) check_covered(w, p, 0, p.ranks);
                if (w.part == WeightPart::experts)
                    for (std::uint32_t g = 0; g < p.expert_groups; ++g)
                        check_covered(w, p, g * p.slices(), p.slices());
            }
        }
    }
}

TEST_CASE("placement: the weights are those of the checkpoint, byte for byte") {
    // The official file list without vision; the index of nano-k2. Both count weight_shape, which
    // is no weight: 8 bytes for each expert matrix.
    const auto bytes = [](const ModelDims &dims) {
        std::uint64_t sum = 0;
        for (const PlacedWeight &w : place_weights({}, dims))
            if (w.part != WeightPart::drafter)
                sum += w.layers * shard_bytes(w) *
                       (w.part == WeightPart::experts ? dims.target.n_experts : 1);
        return sum + std::uint64_t{dims.target.n_moe_layers()} * dims.target.n_experts * 3 * 8;
    };
    CHECK(bytes(k26()) == 594'205'351'936 + 552'960);
    const Json index = read_json(nano() + "/model.safetensors.index.json");
    CHECK(double(bytes(nano_k2())) == index.find("metadata")->find("total_size")->real);
}

TEST_CASE("placement: what a rank of eight holds of K2.6") {
    const ModelDims dims = k26(true);
    Placement p = placement(8);
    auto weights = place_weights(p, dims);
    const auto shard = [&](std::string_view name, WeightPart part, std::uint32_t rank) {
        return shard_of(find(weights, name, part), p, rank);
    };
    // 8 heads: of 128 + 64 query rows, 128 + 128 key and value rows, 128 inputs of o.
    const WeightPart attention = WeightPart::attention;
    CHECK(shard("self_attn.q_b_proj.weight", attention, 3) == Shard{3 * 8 * 192, 8 * 192, 0, 1536});
    CHECK(shard("self_attn.kv_b_proj.weight", attention, 3) == Shard{3 * 8 * 256, 8 * 256, 0, 512});
    CHECK(shard("self_attn.o_proj.weight", attention, 3) == Shard{0, 7168, 3 * 8 * 128, 8 * 128});
    CHECK(shard("self_attn.q_a_proj.weight", WeightPart::latents, 3) == Shard{0, 1536, 0, 7168});
    // 2048 wide experts: 256 of each, 8 groups of 32 inputs.
    CHECK(shard("gate_proj", WeightPart::experts, 7) == Shard{7 * 256, 256, 0, 7168});
    CHECK(shard("down_proj", WeightPart::experts, 7) == Shard{0, 7168, 7 * 256, 256});
    CHECK(p.held_experts(dims.target) == 384);
    CHECK(shard("lm_head.weight", WeightPart::head, 1) == Shard{20480, 20480, 0, 7168});
    CHECK(shard("self_attn.k_proj.weight", WeightPart::drafter, 5) == Shard{5 * 128, 128, 0, 7168});

    p.expert_groups = 8;
    weights = place_weights(p, dims);
    CHECK(p.held_experts(dims.target) == 48);
    CHECK(shard("down_proj", WeightPart::experts, 7) == Shard{0, 7168, 0, 2048});
    p.expert_groups = 2;
    weights = place_weights(p, dims);
    CHECK(p.held_experts(dims.target) == 192);
    CHECK(p.group_of(3) == 0);
    CHECK(p.group_of(4) == 1);
    CHECK(shard("gate_proj", WeightPart::experts, 5) == Shard{512, 512, 0, 7168});

    p.split_q_a = p.split_kv_a = p.split_router = true;
    weights = place_weights(p, dims);
    const WeightPart latents = WeightPart::latents;
    CHECK(shard("self_attn.q_a_proj.weight", latents, 2) == Shard{2 * 192, 192, 0, 7168});
    CHECK(shard("self_attn.kv_a_proj_with_mqa.weight", latents, 2) == Shard{2 * 72, 72, 0, 7168});
    CHECK(shard("mlp.gate.weight", WeightPart::router, 2) == Shard{2 * 48, 48, 0, 7168});
}

TEST_CASE("placement: a drafter's KV head is with the query heads that use it") {
    const ModelDims dims = nano_k2();
    const DrafterDims &d = *dims.drafter;
    REQUIRE(d.n_kv_heads == 2);
    for (const std::uint32_t ranks : {1U, 2U, 4U, 8U}) {
        const Placement p = placement(ranks);
        const auto weights = place_weights(p, dims);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            const auto heads = [&](const char *name) {
                const Shard s = shard_of(find(weights, name, WeightPart::drafter), p, rank);
                return std::pair(s.row_begin / d.head_dim, (s.row_begin + s.n_rows) / d.head_dim);
            };
            const auto [q_begin, q_end] = heads("self_attn.q_proj.weight");
            const auto [k_begin, k_end] = heads("self_attn.k_proj.weight");
            const std::uint32_t per_kv_head = d.n_heads / d.n_kv_heads;
            CHECK(q_begin / per_kv_head == k_begin);
            CHECK((q_end - 1) / per_kv_head == k_end - 1);
        }
    }
}

TEST_CASE("placement: under context attention the ranks share every page of 64 tokens") {
    CHECK(placement(4, AttentionSplit::context).page_parts() == 4);
    CHECK(placement(4).page_parts() == 1);
    ModelDims dims = k26();
    dims.target.n_heads = 60, dims.target.vocab = 60 * 1024;
    dims.target.dense_width = dims.target.expert_width = 60 * 32;
    check_placement(placement(12), dims);
    CHECK(error_text(placement(12, AttentionSplit::context), dims) ==
          "field ranks: is 12, must divide the 64 tokens of a KV page under context attention");
}

TEST_CASE("placement: what does not divide is named with both values") {
    const ModelDims dims = k26();
    ModelDims odd = dims;
    CHECK(contains(error_text(placement(3), dims),
                   "field ranks: is 3, must divide vocab_size, 163840 (embed_tokens.weight)"));
    odd.target.n_heads = 60;
    CHECK(contains(error_text(placement(8), odd),
                   "field ranks: is 8, must divide num_attention_heads, 60"));
    odd = dims;
    odd.target.dense_width = 18432 + 32;
    CHECK(contains(error_text(placement(8), odd),
                   "field ranks: is 8, must divide intermediate_size / 32, 577"));
    odd = dims;
    odd.target.expert_width = 32 * 12, odd.target.n_shared_experts = 2;
    CHECK(contains(error_text(placement(8), odd),
                   "field placement.expert_groups: is 1 of 8 ranks, so that 8 slices are cut, must "
                   "divide moe_intermediate_size / 32, 12"));
    check_placement(placement(8, AttentionSplit::tensor, 2), odd);
    odd = dims;
    odd.target.n_experts = 380;
    CHECK(contains(error_text(placement(8, AttentionSplit::tensor, 8), odd),
                   "field placement.expert_groups: is 8, must divide n_routed_experts, 380"));
    CHECK(contains(error_text(placement(8, AttentionSplit::tensor, 3), dims),
                   "field placement.expert_groups: is 3, must divide ranks, 8"));
    CHECK(contains(error_text(placement(0), dims), "field ranks: is 0"));
    odd = dims;
    odd.target.q_rank = 1540;
    Placement p = placement(8);
    check_placement(p, odd);
    p.split_q_a = true;
    CHECK(contains(error_text(p, odd), "field ranks: is 8, must divide q_lora_rank, 1540"));

    odd = k26(true);
    odd.drafter->n_heads = 24, odd.drafter->n_kv_heads = 3;
    CHECK(contains(error_text(placement(8), odd),
                   "field ranks: is 8, must divide or be a multiple of the drafter's "
                   "num_key_value_heads, 3"));

    p = placement(8, AttentionSplit::tensor, 8);
    p.expert_replicas = 4;
    CHECK(
        contains(error_text(p, dims), "is 8, must divide n_routed_experts + expert_replicas, 388"));
    p.expert_replicas = 384 * 8;
    CHECK(contains(error_text(p, dims),
                   "field placement.expert_replicas: is 3072, at most 2688 fit 8 groups"));
}

TEST_CASE("placement: as a deployment asks for it") {
    const TempDir dir;
    const auto read = [&](std::string_view json) {
        return placement_of(read_deployment(dir.write("d.json", json)), nano_k2());
    };
    CHECK(read(R"({"checkpoint": "m"})") == Placement());
    CHECK(read(R"({"checkpoint": "m", "ranks": 8})") == placement(8));
    Placement p = placement(8, AttentionSplit::context, 2);
    p.split_q_a = p.split_router = true;
    CHECK(read(R"({"checkpoint": "m", "ranks": 8, "placement": {"attention": "context",
        "experts": "groups", "expert_groups": 2, "q_a": "split", "router": "split"}})") == p);
    CHECK(read(R"({"checkpoint": "m", "ranks": 4, "placement": {"experts": "expert"}})") ==
          placement(4, AttentionSplit::tensor, 4));
    CHECK(contains(error_of([&] { read(R"({"checkpoint": "m", "ranks": 16})"); }).text,
                   "field ranks: is 16, must divide num_attention_heads, 8"));
}
