// Reads a struct that is wider than the widest access.
#pragma once

#include "kernels/simt/simt.h"

namespace kimi {

template <typename T>
__device__ __forceinline__ T load_struct(const simt::Global<const T> &from) {
    using namespace simt;
    static_assert(sizeof(T) == 32 && alignof(T) >= 16);
    struct Halves {
        uint4 low, high;
    };
    const Global<const uint4> halves = reinterpret<const uint4>(from);
    return bits<T>(Halves{load<uint4>(halves), load<uint4>(halves + 1)});
}

}  // namespace kimi
