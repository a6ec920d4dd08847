// What a deployment needs of each device, from config and index alone.
#pragma once

#include "deploy/deployment.h"
#include "placement/cost_model.h"

namespace kimi {

struct Estimate {
    std::uint32_t devices = 1;
    DeviceMemory device;
    std::uint64_t kv_bytes = 0;  // of the pool that the deployment wants
};

// memory_bytes: of one device; 0 asks the machine. Throws as read_model_dims, placement_of and
// context_limit_of.
Estimate estimate(const Deployment &deployment, std::uint64_t memory_bytes);

}  // namespace kimi
