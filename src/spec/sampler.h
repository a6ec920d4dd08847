// The target's choice of a token from its logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kimi {

inline constexpr float kMaxTemperature = 1e4f;

struct SamplingOptions {
    std::uint64_t seed = 0;
    float temperature = 1;    // 0 is greedy
    float top_p = 0;          // 0 and 1 are off
    float min_p = 0;          // 0 is off
    std::uint32_t top_k = 0;  // 0 is off
};

// Standard Gumbel noise of a token at an absolute position of the sequence: one stream per seed,
// whatever is drafted, batched or filtered. Word token % 4 of Philox's block with counter (token /
// 4, position, 0, 0) and the seed as key.
double gumbel(std::uint64_t seed, std::uint64_t position, std::uint32_t token);

// Temperature 0: the largest logit, lower id first. Otherwise temperature, top-k, top-p and min-p
// leave some tokens (in order of their logits, lower id first), of which the one with the largest
// logit / temperature + gumbel(seed, position, token) is chosen: an exact sample of their softmax.
class Sampler {
  public:
    explicit Sampler(std::uint32_t vocab);

    // Bit t % 64 of allowed[t / 64] is set for each token t that may be chosen, of which there is
    // one at least; without any words all may. Throws KIMI_NUMERIC where a logit is NaN or
    // infinite.
    std::int32_t sample(std::span<const float> logits, const SamplingOptions &options,
                        std::uint64_t position, std::span<const std::uint64_t> allowed = {});

  private:
    // Moves the n best tokens to the front of order_, sorted.
    void sort_best(std::span<const float> logits, std::size_t n);
    std::size_t count_top_p(std::span<const float> logits, const SamplingOptions &options,
                            std::size_t n);

    std::vector<std::uint32_t> order_;  // [at most vocab] token ids
    std::size_t n_sorted_ = 0;
};

}  // namespace kimi
