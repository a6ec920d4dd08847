#include "placement/placement.h"

#include <algorithm>

#include "base/error.h"

namespace kimi {
namespace {

// Inputs that share an int4 scale, and the width of the kernels' steps along a row.
constexpr std::uint32_t kGroup = 32;

// Builds the list; the ways to cut have a method each.
class List {
  public:
    List(const Placement &placement, std::vector<PlacedWeight> &out) : p_(placement), out_(out) {}

    void part(WeightPart part, std::uint32_t layers) { part_ = part, layers_ = layers; }

    void whole(std::string_view name, std::uint32_t rows, std::uint32_t cols,
               ElementType type = ElementType::bf16) {
        out_.push_back({name, part_, type, rows, cols, layers_});
    }
    void vector(std::string_view name, std::uint32_t n) { whole(name, 1, n); }
    void rows(std::string_view name, std::uint32_t rows, std::uint32_t cols, std::uint32_t units,
              std::string_view unit_of) {
        whole(name, rows, cols);
        cut(SplitAxis::rows, p_.ranks, units, unit_of);
    }
    void rows_if(bool split, std::string_view name, std::uint32_t rows, std::uint32_t cols,
                 std::string_view unit_of) {
        whole(name, rows, cols);
        if (split) cut(SplitAxis::rows, p_.ranks, rows, unit_of);
    }
    void cols(std::string_view name, std::uint32_t rows, std::uint32_t cols, std::uint32_t units,
              std::string_view unit_of) {
        whole(name, rows, cols);
        cut(SplitAxis::cols, p_.ranks, units, unit_of);
    }
    // gate and up by rows, down by inputs, in whole groups.
    void mlp(std::string_view gate, std::string_view up, std::string_view down,
             std::uint32_t hidden, std::uint32_t width, std::string_view unit_of,
             std::uint32_t cuts, ElementType type = ElementType::bf16) {
        for (const std::string_view name : {gate, up}) {
            whole(name, width, hidden, type);
            cut(SplitAxis::rows, cuts, width / kGroup, unit_of);
        }
        whole(down, hidden, width, type);
        cut(SplitAxis::cols, cuts, width / kGroup, unit_of);
    }
    void cut(SplitAxis axis, std::uint32_t cuts, std::uint32_t units, std::string_view unit_of) {
        if (cuts == 1) return;
        PlacedWeight &w = out_.back();
        w.axis = axis, w.cuts = cuts, w.units = units, w.unit_of = unit_of;
    }

  private:
    const Placement &p_;
    std::vector<PlacedWeight> &out_;
    WeightPart part_ = WeightPart::norms;
    std::uint32_t layers_ = 1;
};

void place_target(const Placement &p, const TargetDims &d, List list) {
    const std::uint32_t n_moe = d.n_moe_layers();
    list.part(WeightPart::embedding, 1);
    list.rows("embed_tokens.weight", d.vocab, d.hidden, d.vocab, "vocab_size");
    list.part(WeightPart::head, 1);
    list.rows("lm_head.weight", d.vocab, d.hidden, d.vocab, "vocab_size");
    list.part(WeightPart::norms, 1);
    list.vector("norm.weight", d.hidden);

    list.part(WeightPart::norms, d.n_layers);
    list.vector("input_layernorm.weight", d.hidden);
    list.vector("post_attention_layernorm.weight", d.hidden);
    list.vector("self_attn.q_a_layernorm.weight", d.q_rank);
    list.vector("self_attn.kv_a_layernorm.weight", d.kv_rank);
    list.part(WeightPart::latents, d.n_layers);
    list.rows_if(p.split_q_a, "self_attn.q_a_proj.weight", d.q_rank, d.hidden, "q_lora_rank");
    list.rows_if(p.split_kv_a, "self_attn.kv_a_proj_with_mqa.weight", d.latent_dim(), d.hidden,
                 "kv_lora_rank + qk_rope_head_dim");
    list.part(WeightPart::attention, d.n_layers);
    list.rows("self_attn.q_b_proj.weight", d.n_heads * d.qk_dim(), d.q_rank, d.n_heads,
              "num_attention_heads");
    list.rows("self_attn.kv_b_proj.weight", d.n_heads * (d.nope_dim + d.v_dim), d.kv_rank,
              d.n_heads, "num_attention_heads");
    list.cols("self_attn.o_proj.weight", d.hidden, d.n_heads * d.v_dim, d.n_heads,
              "num_attention_heads");

    list.part(WeightPart::dense, d.n_dense_layers);
    list.mlp("mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight", d.hidden,
             d.dense_width, "intermediate_size / 32", p.ranks);
    list.part(WeightPart::router, n_moe);
    list.rows_if(p.split_router, "mlp.gate.weight", d.n_experts, d.hidden, "n_routed_experts");
    list.whole("mlp.gate.e_score_correction_bias", 1, d.n_experts, ElementType::f32);
    list.part(WeightPart::shared, n_moe);
    list.mlp("mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight",
             "mlp.shared_experts.down_proj.weight", d.hidden, d.expert_width * d.n_shared_experts,
             "n_shared_experts * moe_intermediate_size / 32", p.ranks);
    list.part(WeightPart::experts, n_moe);
    list.mlp("gate_proj", "up_proj", "down_proj", d.hidden, d.expert_width,
             "moe_intermediate_size / 32", p.slices(),
             d.int4_experts ? ElementType::int4 : ElementType::bf16);
}

void place_drafter(const Placement &p, const TargetDims &t, const DrafterDims &d, List list) {
    const std::uint32_t q_dim = d.n_heads * d.head_dim, kv_dim = d.n_kv_heads * d.head_dim;
    list.part(WeightPart::drafter, 1);
    list.rows("fc.weight", t.hidden, d.n_taps * t.hidden, t.hidden, "hidden_size");
    list.vector("hidden_norm.weight", t.hidden);
    list.vector("norm.weight", t.hidden);
    list.part(WeightPart::drafter, d.n_layers());
    list.vector("input_layernorm.weight", t.hidden);
    list.vector("post_attention_layernorm.weight", t.hidden);
    list.vector("self_attn.q_norm.weight", d.head_dim);
    list.vector("self_attn.k_norm.weight", d.head_dim);
    list.rows("self_attn.q_proj.weight", q_dim, t.hidden, d.n_heads,
              "the drafter's num_attention_heads");
    for (const char *name : {"self_attn.k_proj.weight", "self_attn.v_proj.weight"}) {
        list.whole(name, kv_dim, t.hidden);
        // Fewer heads than ranks are held by several ranks each.
        list.cut(SplitAxis::rows, std::min(p.ranks, d.n_kv_heads), d.n_kv_heads,
                 "the drafter's num_key_value_heads");
    }
    list.cols("self_attn.o_proj.weight", t.hidden, q_dim, d.n_heads,
              "the drafter's num_attention_heads");
    list.mlp("mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight", t.hidden,
             d.width, "the drafter's intermediate_size / 32", p.ranks);
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
    place_target(placement, dims.target, List(placement, out));
    if (dims.drafter) place_drafter(placement, dims.target, *dims.drafter, List(placement, out));
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
    out.split_q_a = in.split_q_a;
    out.split_kv_a = in.split_kv_a;
    out.split_router = in.split_router;
    check_placement(out, dims);
    return out;
}

}  // namespace kimi
