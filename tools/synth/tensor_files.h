// Safetensors files and their index, byte for byte as the safetensors library lays them out.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/safetensors.h"

namespace kimi::synth {

struct TensorSpec {
    std::string name;
    DType dtype;
    std::vector<std::uint64_t> shape;
    std::array<std::int32_t, 2> holds{};  // of a weight_shape: its two values

    std::uint64_t bytes() const;
};

struct Shard {
    std::string file;
    std::vector<TensorSpec> tensors;  // in the order of their data

    std::uint64_t data_bytes() const;
};

// A shard with its tensors in the library's order: by type, then by name.
Shard make_shard(std::string file, std::vector<TensorSpec> tensors);

// The length and the JSON, padded with spaces to whole 8 bytes.
std::string safetensors_header(std::span<const TensorSpec> tensors);

// model.safetensors.index.json
std::string index_json(std::span<const Shard> shards);

}  // namespace kimi::synth
