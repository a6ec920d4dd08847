// Tells checkpoints apart without reading them whole.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "model/checkpoint.h"

namespace kimi {

using Digest = std::array<std::uint64_t, 2>;

// XXH3 of config.json and of every tensor's name, type, shape and first and last bytes. Checkpoints
// with equal digests have the same shapes and, unless somebody made them so on purpose, the same
// values.
Digest checkpoint_digest(const Checkpoint &checkpoint);

}  // namespace kimi
