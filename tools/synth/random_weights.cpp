#include "tools/synth/random_weights.h"

#include <cmath>
#include <cstring>

#include "base/bf16.h"

namespace kimi::synth {
namespace {

// Half the width of a uniform distribution around 0 with this standard deviation.
float half_range(double deviation) {
    return static_cast<float>(std::sqrt(3.0) * deviation);
}

std::uint64_t hash(std::string_view text) {
    std::uint64_t h = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return h;
}

}  // namespace

RandomTensor::RandomTensor(const TensorSpec &tensor, std::uint64_t seed)
    : tensor_(tensor), state_(hash(tensor.name) + seed * 0x9e3779b97f4a7c15) {
    const std::string &name = tensor.name;
    const double inputs = static_cast<double>(tensor.shape.back());
    if (tensor.dtype == DType::f32) {  // the router's bias
        half_range_ = 0.02f;
    } else if (tensor.shape.size() == 1) {
        middle_ = name.ends_with(".bias") ? 0.0f : 1.0f;
        half_range_ = 0.1f;
    } else if (name.ends_with("weight_scale")) {
        // The nibbles -8..7 have a root mean square of sqrt(21.5).
        const double deviation = 1 / std::sqrt(32 * inputs);
        middle_ = static_cast<float>(deviation / std::sqrt(21.5));
        half_range_ = middle_ / 2;
    } else if (name.ends_with("embed_tokens.weight")) {
        half_range_ = half_range(1);
    } else {
        const bool to_residual =
            name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
        half_range_ = half_range((to_residual ? 0.5 : 1.0) / std::sqrt(inputs));
    }
}

// splitmix64
std::uint64_t RandomTensor::bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

void RandomTensor::next(std::span<std::byte> out) {
    if (tensor_.name.ends_with("weight_shape")) {
        std::memcpy(out.data(), tensor_.holds.data(), out.size());
        return;
    }
    const auto value = [&](std::int32_t signed_bits, float unit) {
        return middle_ + half_range_ * unit * static_cast<float>(signed_bits);
    };
    for (std::size_t at = 0; at < out.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word = bits();
        if (tensor_.dtype == DType::bf16) {
            bf16 values[4];
            for (int i = 0; i < 4; ++i)
                values[i] = to_bf16(value(static_cast<std::int16_t>(word >> 16 * i), 0x1p-15f));
            std::memcpy(&word, values, sizeof word);
        } else if (tensor_.dtype == DType::f32) {
            const float values[2] = {value(static_cast<std::int32_t>(word), 0x1p-31f),
                                     value(static_cast<std::int32_t>(word >> 32), 0x1p-31f)};
            std::memcpy(&word, values, sizeof word);
        }
        std::memcpy(out.data() + at, &word, std::min(sizeof word, out.size() - at));
    }
}

std::string random_bytes(const TensorSpec &tensor, std::uint64_t seed) {
    std::string out(tensor.bytes(), '\0');
    RandomTensor(tensor, seed).next(std::as_writable_bytes(std::span(out)));
    return out;
}

}  // namespace kimi::synth
