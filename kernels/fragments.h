// Operands of mma from registers.
#pragma once

#include "kernels/simt/simt.h"

namespace kimi {

__device__ __forceinline__ simt::FragA frag_a(std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                              std::uint32_t a3) {
    simt::FragA f;
    f[0] = a0;
    f[1] = a1;
    f[2] = a2;
    f[3] = a3;
    return f;
}
__device__ __forceinline__ simt::FragB frag_b(std::uint32_t b0, std::uint32_t b1) {
    simt::FragB f;
    f[0] = b0;
    f[1] = b1;
    return f;
}

}  // namespace kimi
