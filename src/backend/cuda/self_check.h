// What a GPU has to get right before a model is loaded on it.
#pragma once

namespace kimi::cuda {

// Runs the kernels that carry a pass on small cases and compares them with plain loops. Throws
// KIMI_DEVICE_LOST with the GPU and the kernel that is wrong.
void self_check(int gpu);

}  // namespace kimi::cuda
