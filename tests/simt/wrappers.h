// A kernel that uses every wrapper once.
#pragma once

#include "kernels/simt/types.h"

namespace kimi {

struct WrapperParams {
    simt::Global<const float> x;       // [128] 0, 1, 2...
    simt::Global<const bf16> half;     // [128] 0, 1, 2...
    simt::Global<std::uint32_t> flag;  // [8] zeros
    simt::Global<float> y;             // [64] what wrappers_test.cpp expects
};

void use_wrappers(const WrapperParams &params, simt::Stream stream);

}  // namespace kimi
