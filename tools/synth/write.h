// Writing checkpoint folders.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/config.h"
#include "tools/synth/tensor_files.h"

namespace kimi::synth {

// Random weights of a seed; without one, files that have a header, their full size and no data
// on the disk.
using Seed = std::optional<std::uint64_t>;

// All throw KIMI_IO with the path.
void write_text(const std::string &path, std::string_view text);
void write_shard(const std::string &folder, const Shard &shard, Seed seed);
// config.json, index and shards.
void write_target(const std::string &folder, const ModelConfig &shape, bool vision, Seed seed);
void write_drafter(const std::string &folder, const ModelConfig &target, Seed seed);
// A tiktoken.model of n_ranks tokens: the 256 bytes, then strings of lower-case letters.
void write_tokenizer(const std::string &folder, std::uint32_t n_ranks);

}  // namespace kimi::synth
