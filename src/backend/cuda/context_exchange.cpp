#include "backend/cuda/context_exchange.h"

#include <vector>

#include "backend/cuda/pass_tables.h"
#include "kernels/attention_merge.h"
#include "kernels/kv_layout.h"

namespace kimi::cuda {

ContextExchange::ContextExchange(const DeviceLimits &limits, cudaStream_t stream)
    : n_ranks_(limits.kv.n_shards), own_heads_(limits.mla.n_heads), stream_(stream) {
    const std::size_t queries = std::size_t{kMaxRows} * n_heads();
    queries_ = {queries * kMlaDim, "queries"};
    out_ = {queries * kMlaLatent, "partial attention"};
    their_out_ = {queries * kMlaLatent, "partial attention"};
    lse_ = {queries, "partial attention"};
    their_lse_ = {queries, "partial attention"};
    n_parts_ = {kMaxRows, "partial attention"};
    const std::vector<std::uint32_t> n_parts(kMaxRows, n_ranks_);
    check(cudaMemcpyAsync(n_parts_.data(), n_parts.data(), n_parts_.bytes(), cudaMemcpyHostToDevice,
                          stream_),
          "reserving memory");
    check(cudaStreamSynchronize(stream_), "reserving memory");
}

const bf16 *ContextExchange::gather(Collectives &collectives, const bf16 *q, std::uint32_t n_rows) {
    collectives.gather(reinterpret_cast<const float *>(q), own_heads_ * kMlaDim / 2, n_rows,
                       reinterpret_cast<float *>(queries_.data()));
    return queries_.data();
}

void ContextExchange::merge(Collectives &collectives, const std::uint32_t *n_rows,
                            std::uint32_t max_rows, bf16 *out) {
    const std::size_t heads = std::size_t{kMaxRows} * own_heads_, sent = max_rows * own_heads_;
    collectives.exchange({{out_.data(), their_out_.data(), sent * kMlaLatent, heads * kMlaLatent},
                          {lse_.data(), their_lse_.data(), sent, heads}});
    attention_merge({their_out_.data(), their_lse_.data(), n_parts_.data(), n_rows,
                     static_cast<int>(own_heads_), kMlaLatent, static_cast<int>(kMaxRows),
                     static_cast<int>(max_rows), out, nullptr, nullptr},
                    stream_);
}

}  // namespace kimi::cuda
