// Rotary position embedding with YaRN scaling, as DeepSeek-V3 defines it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"

namespace kimi {

// 0.1 m ln(factor) + 1, and 1 for factor <= 1.
double yarn_mscale(double factor, double m);

// [dim / 2] inverse frequencies. Pair i below dim `low` keeps theta^(-2i/dim), above `high` it is
// divided by factor, with a linear ramp between; low and high are the dims that turn beta_fast and
// beta_slow times within the original context.
std::vector<float> yarn_inv_freq(std::uint32_t dim, const YarnConfig &yarn);

// What cos and sin are multiplied by: mscale(factor, mscale) / mscale(factor, mscale_all_dim).
float yarn_amplitude(const YarnConfig &yarn);

}  // namespace kimi
