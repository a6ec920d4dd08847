// The arithmetic of mma.sync on whole matrices.
#pragma once

#include <array>
#include <cstdint>

namespace kimi::simt::host {

// Operands as their registers lie in the warp: 32 words per register, lane after lane.
using Words = const std::uint32_t *;

// d [16, 8] += a b in fp32. a has 4 registers, b 2.
void multiply_bf16(float *d, const std::array<Words, 4> &a, const std::array<Words, 2> &b);
void multiply_f16(float *d, const std::array<Words, 4> &a, const std::array<Words, 2> &b);
void multiply_e4m3(float *d, const std::array<Words, 4> &a, const std::array<Words, 2> &b);

}  // namespace kimi::simt::host
