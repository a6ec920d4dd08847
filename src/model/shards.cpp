#include "model/shards.h"

#include <algorithm>

#include "base/error.h"

namespace kimi {
namespace {

// Cuts matrices by the names that the placement has for them.
class Cutter {
  public:
    Cutter(const ModelPlacement &p, std::uint32_t rank)
        : p_(p), rank_(rank), list_(place_weights(p.placement, p.dims)) {}

    Shard shard(WeightPart part, std::string_view name) const {
        const auto w = std::find_if(list_.begin(), list_.end(), [&](const PlacedWeight &placed) {
            return placed.part == part && placed.name == name;
        });
        KIMI_CHECK(w != list_.end());
        return shard_of(*w, p_.placement, rank_);
    }
    Matrix cut(const Matrix &whole, WeightPart part, std::string_view name) const {
        const Shard s = shard(part, name);
        return whole.slice_rows(s.row_begin, s.n_rows).slice_cols(s.col_begin, s.n_cols);
    }
    MlpWeights mlp(const MlpWeights &whole, WeightPart part, const std::string &prefix,
                   std::string_view suffix = ".weight") const {
        return {cut(whole.gate, part, cat(prefix, "gate_proj", suffix)),
                cut(whole.up, part, cat(prefix, "up_proj", suffix)),
                cut(whole.down, part, cat(prefix, "down_proj", suffix))};
    }
    MoeWeights moe(const MoeWeights &whole, std::uint32_t moe_layer) const {
        MoeWeights out;
        out.router = cut(whole.router, WeightPart::router, "mlp.gate.weight");
        out.bias = whole.bias;
        out.experts.reserve(whole.experts.size());
        for (std::uint32_t e = 0; e < whole.experts.size(); ++e)
            out.experts.push_back(expert(whole.experts[e], moe_layer, e));
        out.shared = mlp(whole.shared, WeightPart::shared, "mlp.shared_experts.");
        return out;
    }

  private:
    Expert expert(const Expert &whole, std::uint32_t moe_layer, std::uint32_t id) const {
        const auto groups = p_.experts.groups_of(moe_layer, id);
        const auto mine = std::find(groups.begin(), groups.end(), p_.placement.group_of(rank_));
        Expert out;
        out.n_copies = 0;
        if (mine == groups.end()) return out;
        const MlpWeights slice =
            mlp({whole.gate, whole.up, whole.down}, WeightPart::experts, "", "");
        return {slice.gate, slice.up, slice.down, static_cast<std::uint32_t>(groups.size()),
                static_cast<std::uint32_t>(mine - groups.begin())};
    }

    const ModelPlacement &p_;
    std::uint32_t rank_;
    std::vector<PlacedWeight> list_;
};

}  // namespace

TargetWeights shard_of(const TargetWeights &whole, const ModelPlacement &placement,
                       std::uint32_t rank) {
    using enum WeightPart;
    const Cutter cutter(placement, rank);
    TargetWeights out;
    out.embedding = cutter.cut(whole.embedding, embedding, "embed_tokens.weight");
    out.head = cutter.cut(whole.head, head, "lm_head.weight");
    out.norm = whole.norm;
    out.layers.reserve(whole.layers.size());
    std::uint32_t moe_layer = 0;
    for (const TargetLayer &w : whole.layers) {
        TargetLayer l = w;
        l.q_a = cutter.cut(w.q_a, latents, "self_attn.q_a_proj.weight");
        l.kv_a = cutter.cut(w.kv_a, latents, "self_attn.kv_a_proj_with_mqa.weight");
        l.q_b = cutter.cut(w.q_b, attention, "self_attn.q_b_proj.weight");
        l.mla.kv_b = cutter.cut(w.mla.kv_b, attention, "self_attn.kv_b_proj.weight");
        l.o = cutter.cut(w.o, attention, "self_attn.o_proj.weight");
        if (w.moe) {
            l.moe = cutter.moe(*w.moe, moe_layer++);
        } else {
            l.dense = cutter.mlp(w.dense, dense, "mlp.");
        }
        out.layers.push_back(std::move(l));
    }
    return out;
}

DrafterWeights shard_of(const DrafterWeights &whole, const ModelPlacement &placement,
                        std::uint32_t rank) {
    const Cutter cutter(placement, rank);
    const auto cut = [&](const Matrix &w, const char *name) {
        return cutter.cut(w, WeightPart::drafter, name);
    };
    DrafterWeights out = whole;
    out.fc = cut(whole.fc, "fc.weight");
    for (DrafterLayer &l : out.layers) {
        l.q = cut(l.q, "self_attn.q_proj.weight");
        l.k = cut(l.k, "self_attn.k_proj.weight");
        l.v = cut(l.v, "self_attn.v_proj.weight");
        l.o = cut(l.o, "self_attn.o_proj.weight");
        l.mlp = cutter.mlp(l.mlp, WeightPart::drafter, "mlp.");
    }
    out.first_kv_head = cutter.shard(WeightPart::drafter, "self_attn.k_proj.weight").row_begin /
                        placement.dims.drafter->head_dim;
    return out;
}

}  // namespace kimi
