// The slices of 64 rows that a launch of the MoE kernels works on side by side.
#pragma once

#include "kernels/moe_layout.h"
#include "kernels/simt/simt.h"

namespace kimi {

__device__ __forceinline__ std::uint32_t moe_rows_of(std::uint32_t n_rows, std::uint32_t slice) {
    const std::uint32_t before = slice * kMoeSliceRows;
    if (n_rows <= before) return 0;
    return n_rows - before < kMoeSliceRows ? n_rows - before : kMoeSliceRows;
}

__device__ __forceinline__ MoePlan moe_plan_of(const MoePlan &p, std::uint32_t slice,
                                               std::uint32_t top_k) {
    const std::uint32_t pair = slice * kMoeSliceRows * top_k;
    return {p.n_tiles + slice, p.n_groups + slice, p.tiles + pair,
            p.groups + pair,   p.pair_row + pair,  p.pair_weight + pair};
}

}  // namespace kimi
