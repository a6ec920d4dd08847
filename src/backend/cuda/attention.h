// Attention over the KV memory: the target's absorbed latent attention, and the drafter's.
#pragma once

#include <optional>

#include "backend/cuda/context_exchange.h"
#include "backend/cuda/kv.h"
#include "backend/cuda/pass_tables.h"
#include "backend/cuda/products.h"

namespace kimi::cuda {

class Attention {
  public:
    Attention(const DeviceLimits &limits, int n_sms, cudaStream_t stream);

    // One layer of the target for the rows of a pass.
    struct Pass {
        const PassTables &tables;
        const CudaKv &kv;
        Products &products;
        Collectives &collectives;
        const MlaShape &shape;
        const MlaWeights &weights;
        const AbsorbedWeights &absorbed;
        std::uint32_t layer;
        const float *new_kv, *rope;  // [rows, latent | rope], [rows, cos | sin]
        const bf16 *q;               // [rows, heads, nope | rope]
        bf16 *out;                   // [rows, heads, v]
    };
    // Writes the new latents, and attends.
    void attend(const Pass &pass);

    void draft_write(const PassTables &tables, const CudaKv &kv, DraftLayerRef layer,
                     const DraftNorms &norms, const float *k, const float *v, const float *rope);
    void draft_attend(const PassTables &tables, const CudaKv &kv, DraftLayerRef layer,
                      const DraftNorms &norms, const float *q, const float *k, const float *v,
                      const float *rope, bf16 *out);

  private:
    // Attends with so many heads of each row, to what the rank holds of its context, in parts.
    void attend_parts(const Pass &pass, const bf16 *q, std::uint32_t n_heads);
    void merge_ranks(const Pass &pass);
    void merge(const PassTables &tables, std::uint32_t n_heads, std::uint32_t dim, bf16 *out);

    cudaStream_t stream_;
    int n_sms_;
    DraftShape draft_;
    std::uint32_t draft_splits_;
    int splits_;                               // of a long context
    DeviceArray<bf16> q_absorbed_;             // [rows, heads, latent | rope]
    DeviceArray<bf16> latents_;                // [rows, heads, latent]
    DeviceArray<bf16> draft_q_, draft_block_;  // [rows, heads, dim]; entries of the rows
    DeviceArray<float> part_out_, part_lse_;   // of the target and of the drafter
    DeviceArray<std::uint32_t> n_parts_;
    std::optional<ContextExchange> exchange_;  // where the context is split over the ranks
};

}  // namespace kimi::cuda
