// Reductions whose order is fixed. Every lane, or every thread, gets the result.
#pragma once

#include "kernels/simt/simt.h"

namespace kimi {

template <typename T, typename F>
__device__ __forceinline__ T warp_reduce(T value, const F &f) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value = f(value, __shfl_xor_sync(~0U, value, distance));
    }
    return value;
}

// Over all threads of the block; `scratch` has 32 elements, which nobody may be using. `identity`
// stands in for warps that do not exist.
template <typename T, typename F>
__device__ __forceinline__ T block_reduce(T value, T identity, simt::Shared<T> scratch,
                                          const F &f) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    value = warp_reduce(value, f);
    if (lane == 0) scratch[warp] = value;
    __syncthreads();
    T other = identity;
    if (lane < n_warps) other = scratch[lane];
    return warp_reduce(other, f);
}

}  // namespace kimi
