// Attention over a context that is split over the ranks: each attends with the heads of all to what
// it holds, and gets what the others found for its own heads.
#pragma once

#include "backend/cuda/collectives.h"
#include "backend/device.h"

namespace kimi::cuda {

class ContextExchange {
  public:
    ContextExchange(const DeviceLimits &limits, cudaStream_t stream);

    std::uint32_t n_heads() const { return n_ranks_ * own_heads_; }  // of all ranks

    // q [rows, own heads, latent | rope] -> [rows, heads of all ranks, latent | rope]
    const bf16 *gather(Collectives &collectives, const bf16 *q, std::uint32_t n_rows);

    // What this rank found, [ranks, kMaxRows, own heads, latent] and without the last of these: a
    // piece for each rank. attention_merge.h says what they are.
    float *out() const { return out_.data(); }
    float *lse() const { return lse_.data(); }
    // Brings every rank its pieces, and merges them in the order of the ranks: out [rows, own
    // heads, latent]. n_rows lies on the device.
    void merge(Collectives &collectives, const std::uint32_t *n_rows, std::uint32_t max_rows,
               bf16 *out);

  private:
    std::uint32_t n_ranks_, own_heads_;
    cudaStream_t stream_;
    DeviceArray<bf16> queries_;
    DeviceArray<float> out_, lse_, their_out_, their_lse_;
    DeviceArray<std::uint32_t> n_parts_;  // [rows], the number of ranks
};

}  // namespace kimi::cuda
