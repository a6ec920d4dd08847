#include "placement/placement.h"

#include <algorithm>

#include "backend/step_plan.h"
#include "base/error.h"

namespace kimi {
namespace {

// Inputs that share an int4 scale, and the width of the kernels' steps along a row.
constexpr std::uint32_t kGroup = 32;

// Indivisible pieces of a dimension, and the config's field that they come from.
struct Units {
    std::uint32_t n;
    std::string_view field;
};

class List {
  public:
    explicit List(std::vector<PlacedWeight> &out) : out_(out) {}

    void part(WeightPart part, std::uint32_t layers) { part_ = part, layers_ = layers; }

    void whole(std::string name, std::uint32_t rows, std::uint32_t cols,
               ElementType type = ElementType::bf16) {
        out_.push_back({std::move(name), part_, type, rows, cols, layers_});
    }
    void vector(std::string name, std::uint32_t n) { whole(std::move(name), 1, n); }
    void cut(SplitAxis axis, std::uint32_t cuts, std::string name, std::uint32_t rows,
             std::uint32_t cols, Units units, ElementType type = ElementType::bf16) {
        whole(std::move(name), rows, cols, type);
        if (cuts == 1) return;
        PlacedWeight &w = out_.back();
        w.axis = axis, w.cuts = cuts, w.units = units.n, w.unit_of = units.field;
    }
    // gate and up by rows, down by inputs, in whole groups of inputs of down.
    void mlp(std::uint32_t cuts, const std::string &prefix, std::string_view suffix,
             std::uint32_t hidden, std::uint32_t width, std::string_view field,
             ElementType type = ElementType::bf16) {
        const Units groups{width / kGroup, field};
        for (const char *name : {"gate_proj", "up_proj"})
            cut(SplitAxis::rows, cuts, cat(prefix, name, suffix), width, hidden, groups, type);
        cut(SplitAxis::cols, cuts, cat(prefix, "down_proj", suffix), hidden, width, groups, type);
    }

  private:
    std::vector<PlacedWeight> &out_;
    WeightPart part_ = WeightPart::norms;
    std::uint32_t layers_ = 1;
};

void place_target(const Placement &p, const TargetDims &d, List list) {
    using enum SplitAxis;
    const Units vocab{d.vocab, "vocab_size"}, heads{d.n_heads, "num_attention_heads"};
    const auto if_split = [&](bool split) { return split ? p.ranks : 1; };
    list.part(WeightPart::embedding, 1);
    list.cut(rows, p.ranks, "embed_tokens.weight", d.vocab, d.hidden, vocab);
    list.part(WeightPart::head, 1);
    list.cut(rows, p.ranks, "lm_head.weight", d.vocab, d.hidden, vocab);
    list.part(WeightPart::norms, 1);
    list.vector("norm.weight", d.hidden);

    list.part(WeightPart::norms, d.n_layers);
    list.vector("input_layernorm.weight", d.hidden);
    list.vector("post_attention_layernorm.weight", d.hidden);
    list.vector("self_attn.q_a_layernorm.weight", d.q_rank);
    list.vector("self_attn.kv_a_layernorm.weight", d.kv_rank);
    list.part(WeightPart::latents, d.n_layers);
    list.cut(rows, if_split(p.split_q_a), "self_attn.q_a_proj.weight", d.q_rank, d.hidden,
             {d.q_rank, "q_lora_rank"});
    list.cut(rows, if_split(p.split_kv_a), "self_attn.kv_a_proj_with_mqa.weight", d.latent_dim(),
             d.hidden, {d.latent_dim(), "kv_lora_rank + qk_rope_head_dim"});
    list.part(WeightPart::attention, d.n_layers);
    list.cut(rows, p.ranks, "self_attn.q_b_proj.weight", d.n_heads * d.qk_dim(), d.q_rank, heads);
    list.cut(rows, p.ranks, "self_attn.kv_b_proj.weight", d.n_heads * (d.nope_dim + d.v_dim),
             d.kv_rank, heads);
    list.cut(cols, p.ranks, "self_attn.o_proj.weight", d.hidden, d.n_heads * d.v_dim, heads);

    list.part(WeightPart::dense, d.n_dense_layers);
    list.mlp(p.ranks, "mlp.", ".weight", d.hidden, d.dense_width, "intermediate_size / 32");
    list.part(WeightPart::router, d.n_moe_layers());
    list.cut(rows, if_split(p.split_router), "mlp.gate.weight", d.n_experts, d.hidden,
             {d.n_experts, "n_routed_experts"});
    list.whole("mlp.gate.e_score_correction_bias", 1, d.n_experts, ElementType::f32);
    list.part(WeightPart::shared, d.n_moe_layers());
    list.mlp(p.ranks, "mlp.shared_experts.", ".weight", d.hidden,
             d.n_shared_experts * d.expert_width, "n_shared_experts * moe_intermediate_size / 32");
    list.part(WeightPart::experts, d.n_moe_layers());
    list.mlp(p.slices(), "", "", d.hidden, d.expert_width, "moe_intermediate_size / 32",
             d.int4_experts ? ElementType::int4 : ElementType::bf16);
}

void place_drafter(const Placement &p, std::uint32_t hidden, const DrafterDims &d, List list) {
    using enum SplitAxis;
    const std::uint32_t q_dim = d.n_heads * d.head_dim, kv_dim = d.n_kv_heads * d.head_dim;
    const Units heads{d.n_heads, "the drafter's num_attention_heads"};
    list.part(WeightPart::drafter, 1);
    list.cut(rows, p.ranks, "fc.weight", hidden, d.n_taps * hidden, {hidden, "hidden_size"});
    list.vector("hidden_norm.weight", hidden);
    list.vector("norm.weight", hidden);
    list.part(WeightPart::drafter, d.n_layers());
    list.vector("input_layernorm.weight", hidden);
    list.vector("post_attention_layernorm.weight", hidden);
    list.vector("self_attn.q_norm.weight", d.head_dim);
    list.vector("self_attn.k_norm.weight", d.head_dim);
    list.cut(rows, p.ranks, "self_attn.q_proj.weight", q_dim, hidden, heads);
    // Fewer KV heads than ranks: several ranks hold each.
    for (const char *name : {"self_attn.k_proj.weight", "self_attn.v_proj.weight"})
        list.cut(rows, std::min(p.ranks, d.n_kv_heads), name, kv_dim, hidden,
                 {d.n_kv_heads, "the drafter's num_key_value_heads"});
    list.cut(cols, p.ranks, "self_attn.o_proj.weight", hidden, q_dim, heads);
    list.mlp(p.ranks, "mlp.", ".weight", hidden, d.width, "the drafter's intermediate_size / 32");
}

template <typename... Parts>
[[noreturn]] void impossible(const Parts &...parts) {
    fail(KIMI_INVALID_ARGUMENT, "field ", parts...);
}

}  // namespace

std::string describe(const Placement &p) {
    std::string out = cat(p.ranks, p.ranks == 1 ? " rank" : " ranks");
    if (p.ranks == 1) return out;
    out += p.attention == AttentionSplit::tensor ? ", attention tensor" : ", attention context";
    if (p.expert_groups == 1) {
        out += ", experts tensor";
    } else if (p.slices() == 1) {
        out += ", experts whole";
    } else {
        out += cat(", experts in ", p.expert_groups, " groups x ", p.slices(), " slices");
    }
    if (p.balance_experts && p.expert_groups > 1) out += ", balanced";
    if (p.expert_replicas > 0) out += cat(", ", p.expert_replicas, " replicas");
    if (p.split_q_a) out += ", q_a split";
    if (p.split_kv_a) out += ", kv_a split";
    if (p.split_router) out += ", router split";
    return out;
}

std::string_view part_name(WeightPart part) {
    constexpr std::string_view kNames[kWeightParts] = {
        "experts", "attention", "q_a and kv_a", "router", "shared",
        "dense",   "embedding", "head",         "norms",  "drafter"};
    return kNames[static_cast<std::size_t>(part)];
}

std::vector<PlacedWeight> place_weights(const Placement &placement, const ModelDims &dims) {
    std::vector<PlacedWeight> out;
    place_target(placement, dims.target, List(out));
    if (dims.drafter) place_drafter(placement, dims.target.hidden, *dims.drafter, List(out));
    return out;
}

Shard shard_of(const PlacedWeight &w, const Placement &placement, std::uint32_t rank) {
    const std::uint32_t cut =
        w.part == WeightPart::experts ? rank % placement.slices() : rank * w.cuts / placement.ranks;
    if (w.axis == SplitAxis::rows) return {cut * (w.rows / w.cuts), w.rows / w.cuts, 0, w.cols};
    if (w.axis == SplitAxis::cols) return {0, w.rows, cut * (w.cols / w.cuts), w.cols / w.cuts};
    return {0, w.rows, 0, w.cols};
}

std::uint64_t shard_elements(const PlacedWeight &w) {
    return std::uint64_t{w.rows} * w.cols / w.cuts;
}

std::uint64_t shard_bytes(const PlacedWeight &w) {
    const std::uint64_t n = shard_elements(w);
    switch (w.type) {
        case ElementType::bf16:
            return 2 * n;
        case ElementType::f32:
            return 4 * n;
        case ElementType::int4:
            return n / 2 + n / kGroup * 2;
    }
    return 0;
}

void check_placement(const Placement &p, const ModelDims &dims) {
    if (p.ranks == 0) impossible("ranks: is 0, must be at least 1");
    if (p.expert_groups == 0 || p.ranks % p.expert_groups != 0)
        impossible("placement.expert_groups: is ", p.expert_groups, ", must divide ranks, ",
                   p.ranks);
    const std::uint32_t held = dims.target.n_experts + p.expert_replicas;
    if (held % p.expert_groups != 0)
        impossible(
            "placement.expert_groups: is ", p.expert_groups, ", must divide ",
            p.expert_replicas > 0 ? "n_routed_experts + expert_replicas, " : "n_routed_experts, ",
            held);
    if (std::uint64_t{held} > std::uint64_t{dims.target.n_experts} * p.expert_groups)
        impossible("placement.expert_replicas: is ", p.expert_replicas, ", at most ",
                   dims.target.n_experts * (p.expert_groups - 1), " fit ", p.expert_groups,
                   " groups");
    if (kPageTokens % p.page_parts() != 0)
        impossible("ranks: is ", p.ranks, ", must divide the ", kPageTokens,
                   " tokens of a KV page under context attention");
    for (const PlacedWeight &w : place_weights(p, dims)) {
        // Fewer cuts than ranks: several ranks hold each.
        const bool even = w.part == WeightPart::experts || p.ranks % w.cuts == 0;
        if (w.units % w.cuts == 0 && even) continue;
        if (w.part == WeightPart::experts)
            impossible("placement.expert_groups: is ", p.expert_groups, " of ", p.ranks,
                       " ranks, so that ", w.cuts, " slices are cut, must divide ", w.unit_of, ", ",
                       w.units);
        impossible("ranks: is ", p.ranks, ", must divide ",
                   w.cuts < p.ranks ? "or be a multiple of " : "", w.unit_of, ", ", w.units, " (",
                   w.name, ")");
    }
}

Placement placement_of(const Deployment &deployment, const ModelDims &dims) {
    const Deployment::Placement &in = deployment.placement;
    Placement out;
    out.ranks = deployment.ranks;
    out.attention = in.attention == Deployment::Attention::context ? AttentionSplit::context
                                                                   : AttentionSplit::tensor;
    if (in.experts == Deployment::Experts::expert) out.expert_groups = out.ranks;
    if (in.experts == Deployment::Experts::groups) out.expert_groups = in.expert_groups;
    out.expert_replicas = in.expert_replicas;
    out.balance_experts = !in.expert_counts.empty();
    out.split_q_a = in.split_q_a;
    out.split_kv_a = in.split_kv_a;
    out.split_router = in.split_router;
    check_placement(out, dims);
    return out;
}

}  // namespace kimi
