// The chosen experts of each row: y[r] (+)= sum over its experts e, ascending, of
// weight[r, e] * down_e(silu(gate_e(x[r])) * up_e(x[r])).
//
// int4 weights (moe_layout.h) x bf16, fp32 accumulation per 32 inputs, then times the scale. The
// routing weight is multiplied in fp32 before the activation is rounded to bf16. Two launches
// behind moe_route; the bits of a row do not depend on the other rows.
//
// Bytes that must move: 4.5 bits per weight of every expert that a row has chosen, once; x and the
// activations come from L2. Slices of 64 rows walk over the experts side by side and in the same
// order, so that all but the first to come to an expert find its weights in L2: at 8 of 384 experts
// a slice has 1.8 rows for each of the 285 that it chooses. sm_80 and later.
#pragma once

#include "kernels/moe_layout.h"

namespace kimi {

struct MoeExpertsParams {
    simt::Global<const bf16> x;  // [rows, hidden]
    MoePlan plan;
    std::uint32_t max_rows, top_k, n_experts;
    std::uint32_t hidden, width;  // multiples of 64: width of this rank's slice of every expert
    // [experts] matrices (moe_layout.h), aligned to 16 bytes: gate and up [2 * width, hidden], down
    // [hidden, width].
    simt::Global<const std::uint8_t> gate_up, down;
    simt::Global<bf16> act;  // [max_rows * top_k, width], scratch
    simt::Global<float> y;   // [rows, hidden]
    simt::Global<const std::uint32_t> n_rows;
    bool add;  // to what y holds
    int n_sms;
};

std::size_t moe_gate_up_shared_bytes();  // of a block
std::size_t moe_down_shared_bytes();

void moe_experts(const MoeExpertsParams &params, simt::Stream stream);

}  // namespace kimi
