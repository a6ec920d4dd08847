// launch() under CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/simt/check_launch.h"

namespace kimi::simt {

// Does not allocate, does not synchronise, and may be captured into a graph.
template <typename... Params, typename... Args>
void launch(const LaunchConfig &config, void (*kernel)(Params...), const Args &...args) {
    constexpr std::size_t kWithoutOptIn = 48 * 1024;
    if (config.shared_bytes > kWithoutOptIn) {
        check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(config.shared_bytes)),
                     config.name);
    }
    cudaLaunchAttribute attributes[2];
    cudaLaunchConfig_t cuda = {};
    cuda.gridDim = dim3(config.grid.x, config.grid.y, config.grid.z);
    cuda.blockDim = dim3(config.block.x, config.block.y, config.block.z);
    cuda.dynamicSmemBytes = config.shared_bytes;
    cuda.stream = config.stream;
    cuda.attrs = attributes;
    if (config.dependent) {
        attributes[cuda.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[cuda.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (config.cooperative) {
        attributes[cuda.numAttrs].id = cudaLaunchAttributeCooperative;
        attributes[cuda.numAttrs++].val.cooperative = 1;
    }
    check_launch(cudaLaunchKernelEx(&cuda, kernel, static_cast<Params>(args)...), config.name);
}

}  // namespace kimi::simt
