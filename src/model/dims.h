// The dimensions of a model for its placement, from config.json files and an index alone.
#pragma once

#include <string>

#include "model/config.h"
#include "model/drafter_weights.h"
#include "placement/dims.h"

namespace kimi {

TargetDims dims_of(const ModelConfig &config, bool int4_experts);
DrafterDims dims_of(const DrafterConfig &config);

// Of the checkpoint folder and, unless it is empty, the drafter's. The experts are int4 where
// the index (or the only file) says so; the files with the weights need not exist. Throws
// KIMI_NOT_FOUND, KIMI_CORRUPT or KIMI_UNSUPPORTED with file and field.
ModelDims read_model_dims(const std::string &checkpoint, const std::string &drafter);

}  // namespace kimi
