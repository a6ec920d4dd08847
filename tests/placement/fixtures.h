// The shapes and the machine that the placement tests share.
#pragma once

#include "check.h"
#include "model/dims.h"
#include "placement/planner.h"
#include "tools/synth/layout.h"

namespace kimi::test {

// K2.6 with the DFlash drafter that z-lab publishes for it: 6 full layers, block 8.
inline ModelDims k26(bool drafter = false) {
    ModelDims out{dims_of(synth::k26_shape(), true), {}};
    if (drafter)
        out.drafter = DrafterDims{.n_full_layers = 6,
                                  .n_heads = 64,
                                  .n_kv_heads = 8,
                                  .head_dim = 128,
                                  .width = 18432,
                                  .n_taps = 6,
                                  .block_size = 8};
    return out;
}

inline ModelDims nano_k2() {
    return read_model_dims(nano(), nano() + "/drafter");
}

inline Machine rtx() {
    return read_machine(source("examples/machines/rtx-pro-6000x8.json"));
}

inline Placement placement(std::uint32_t ranks, AttentionSplit attention = AttentionSplit::tensor,
                           std::uint32_t expert_groups = 1) {
    Placement out;
    out.ranks = ranks, out.attention = attention, out.expert_groups = expert_groups;
    return out;
}

inline CostModel cost_model(const ModelDims &dims, const Placement &p,
                            KvFormat kv = KvFormat::fp8_flat, const Machine &machine = rtx(),
                            std::uint32_t max_rows = 64) {
    return CostModel(
        dims, p, machine, kv,
        Routing(dims.target, ExpertMap::in_order(dims.target, p.expert_groups), max_rows));
}

// Within 2 %, which is also how far the references' last digits reach.
inline void check_near(double got, double expected, double tolerance = 0.02) {
    INFO("got ", got, ", expected ", expected);
    CHECK(std::fabs(got - expected) <= tolerance * std::fabs(expected));
}

}  // namespace kimi::test
