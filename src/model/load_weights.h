// Brings the weights of all ranks to their devices, in the order in which the files have them: so
// each file is read once, from front to back.
#pragma once

#include <vector>

#include "model/checkpoint.h"
#include "model/drafter_weights.h"
#include "model/target_weights.h"

namespace kimi {

// What one rank holds; its views refer to the device's memory afterwards.
struct RankWeights {
    Device *device;
    TargetWeights *target;
    DrafterWeights *drafter;
    MlaShape mla;  // of the rank
};

// progress gets bytes of weights, over all ranks, and may throw to stop.
void load_weights(const std::vector<RankWeights> &ranks, const Progress &progress);

}  // namespace kimi
