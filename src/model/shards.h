// What a rank holds of a model's weights: views of the parts of the whole that the placement gives
// it. Nothing is copied.
#pragma once

#include "model/drafter_weights.h"
#include "model/target_weights.h"
#include "placement/expert_map.h"
#include "placement/placement.h"

namespace kimi {

// Who holds what of one model.
struct ModelPlacement {
    ModelDims dims;
    Placement placement;  // checked
    ExpertMap experts;    // over its groups
};

TargetWeights shard_of(const TargetWeights &whole, const ModelPlacement &placement,
                       std::uint32_t rank);
DrafterWeights shard_of(const DrafterWeights &whole, const ModelPlacement &placement,
                        std::uint32_t rank);

}  // namespace kimi
