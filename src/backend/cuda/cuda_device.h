// A GPU as a device: fused kernels over memory that is reserved before the first pass.
#pragma once

#include <memory>

#include "backend/cuda/collectives.h"
#include "backend/device.h"

namespace kimi::cuda {

// GPU `rank` of the group, which all ranks' devices share.
std::unique_ptr<Device> make_cuda_device(std::shared_ptr<Group> group, std::uint32_t rank);

}  // namespace kimi::cuda
