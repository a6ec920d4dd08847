#include "model/yarn.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kimi {

double yarn_mscale(double factor, double m) {
    return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
}

std::vector<float> yarn_inv_freq(std::uint32_t dim, const YarnConfig &yarn) {
    std::vector<float> out(dim / 2);
    // The dim whose pair turns `rotations` times within the original context.
    const auto dim_of = [&](double rotations) {
        return dim * std::log(yarn.original_max_position / (rotations * 2 * std::numbers::pi)) /
               (2 * std::log(yarn.theta));
    };
    double low = 0, high = 0;
    if (yarn.factor > 1) {
        low = std::max(std::floor(dim_of(yarn.beta_fast)), 0.0);
        high = std::min(std::ceil(dim_of(yarn.beta_slow)), dim - 1.0);
        if (low == high) high += 0.001;
    }
    for (std::uint32_t i = 0; i < dim / 2; ++i) {
        const double base = std::pow(yarn.theta, -2.0 * i / dim);
        const double ramp = yarn.factor > 1 ? std::clamp((i - low) / (high - low), 0.0, 1.0) : 0.0;
        out[i] = static_cast<float>(base / yarn.factor * ramp + base * (1 - ramp));
    }
    return out;
}

float yarn_amplitude(const YarnConfig &yarn) {
    return static_cast<float>(yarn_mscale(yarn.factor, yarn.mscale) /
                              yarn_mscale(yarn.factor, yarn.mscale_all_dim));
}

}  // namespace kimi
