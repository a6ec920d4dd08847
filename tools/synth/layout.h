// The files of a K2.6 checkpoint and of a DFlash drafter, for any shape.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "tools/synth/tensor_files.h"

namespace kimi::synth {

ModelConfig k26_shape();

// One shard per layer, one with embedding, norm and head, and where `vision` is set one with the
// projector and one with the vision tower.
std::vector<Shard> target_layout(const ModelConfig &shape, bool vision);
std::string target_config(const ModelConfig &shape);

// The one file of a drafter that fits the target.
Shard drafter_layout(const ModelConfig &target);
std::string drafter_config(const ModelConfig &target);

}  // namespace kimi::synth
