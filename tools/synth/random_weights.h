// Random weights that keep activations finite and routing spread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tools/synth/tensor_files.h"

namespace kimi::synth {

// The bytes of one tensor, piece by piece. They depend on the seed and the tensor's name.
// Linear weights have variance 1/inputs (projections back to the residual stream a quarter of it),
// norm weights lie around 1, all sixteen nibbles are equally frequent.
class RandomTensor {
  public:
    RandomTensor(const TensorSpec &tensor, std::uint64_t seed);
    // Every piece but the last has whole 8 bytes.
    void next(std::span<std::byte> out);

  private:
    std::uint64_t bits();

    TensorSpec tensor_;
    std::uint64_t state_;
    float middle_ = 0, half_range_ = 0;  // of uniform values
};

// The whole of a small tensor.
std::string random_bytes(const TensorSpec &tensor, std::uint64_t seed);

}  // namespace kimi::synth
