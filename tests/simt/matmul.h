// Example of a kernel: y = a b^T with tensor cores.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct MatmulParams {
    simt::Global<const bf16> a;  // [m, k]
    simt::Global<const bf16> b;  // [n, k]
    simt::Global<float> y;       // [m, n]
    int m, n, k;                 // n a multiple of 64, k of 32
};

void matmul(const MatmulParams &params, simt::Stream stream);

}  // namespace kimi
