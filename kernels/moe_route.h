// The experts of each row, and the rows of each expert.
//
// score = sigmoid(logit); the top_k experts with the largest score + bias, lower index first on
// ties, are chosen; weight = score / (sum of the chosen scores + 1e-20) * scale. A NaN counts as
// -inf, and the ids of a row are always distinct. fp32; the order of each sum is that of the
// choice. Bytes that must move: 4 * rows * experts + 4 * experts in, 8 per pair out.
#pragma once

#include "kernels/moe_layout.h"

namespace kimi {

struct MoeRouteParams {
    simt::Global<const float> logits;          // [rows, experts]
    simt::Global<const float> bias;            // [experts]
    simt::Global<const std::uint32_t> n_rows;  // on the device, at most max_rows
    std::uint32_t max_rows, n_experts, top_k;  // at most 512 and 8; top_k <= n_experts
    bool normalize;
    float scale;
    simt::Global<std::uint32_t> ids;  // [rows, top_k], best first
    simt::Global<float> weights;      // [rows, top_k]
    MoePlan plan;                     // of the experts that the rank has
    // [experts] or null: the place of each expert in the rank's memory, which the plan names it by,
    // ascending; kMoeElsewhere: another rank has it.
    simt::Global<const std::uint32_t> held;
};

void moe_route(const MoeRouteParams &params, simt::Stream stream);

}  // namespace kimi
