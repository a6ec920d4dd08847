#include "backend/cuda/products.h"

#include <algorithm>

#include "backend/cuda/pass_tables.h"
#include "kernels/moe_experts.h"
#include "kernels/moe_route.h"

namespace kimi::cuda {
namespace {

// With splits, skinny_gemm_tiles() makes at most two blocks per SM, of up to 32 outputs x 64 rows.
constexpr std::size_t kBlocksPerSm = 2, kBlockOutputs = 32 * 64;

}  // namespace

Products::Products(const DeviceLimits &limits, int n_sms, cudaStream_t stream)
    : stream_(stream),
      n_sms_(n_sms),
      hidden_(limits.hidden),
      partial_(kBlocksPerSm * static_cast<unsigned>(n_sms) * kBlockOutputs, "partial products"),
      arrived_(kBlocksPerSm * static_cast<unsigned>(n_sms), "partial products") {
    const std::size_t pairs = std::size_t{limits.rows} * limits.top_k;
    ids_ = {pairs, "routing"};
    pair_row_ = {pairs, "routing"};
    n_tiles_ = {moe_slices(limits.rows), "routing"};
    n_groups_ = {moe_slices(limits.rows), "routing"};
    weights_ = {pairs, "routing"};
    pair_weight_ = {pairs, "routing"};
    tiles_ = {pairs, "routing"};
    groups_ = {pairs, "routing"};
    act_ = {pairs * limits.expert_width, "expert activations"};
    arrived_.zero(stream);
}

void Products::linear(std::span<const LinearJob> jobs, const Activations &activations,
                      const std::uint32_t *n_rows, std::uint32_t max_rows) {
    SkinnyGemmParams p = {};
    p.x = activations.narrow(jobs[0].in.data);
    p.n_rows = n_rows;
    p.max_rows = max_rows;
    p.inputs = jobs[0].weight->cols;
    for (const LinearJob &job : jobs) {
        SkinnyGemmJob &to = p.jobs[p.n_jobs++];
        to.weight = reinterpret_cast<const bf16 *>(job.weight->data);
        to.outputs = job.weight->rows;
        if (job.rounded)
            to.y_bf16 = activations.narrow(job.out.data);
        else
            to.y_f32 = job.out.data;
    }
    run(p);
}

void Products::heads(const HeadProducts &h, const std::uint32_t *n_rows, std::uint32_t max_rows) {
    SkinnyGemmParams p = {};
    p.x = h.x;
    p.n_rows = n_rows;
    p.max_rows = max_rows;
    p.inputs = h.inputs;
    p.n_jobs = 1;
    p.batches = h.n_heads;
    p.x_row = h.n_heads * h.x_stride;
    p.x_batch = h.x_stride;
    p.jobs[0].weight = h.weight;
    p.jobs[0].y_bf16 = h.y;
    p.jobs[0].outputs = h.outputs;
    p.jobs[0].y_row = h.n_heads * h.y_stride;
    p.jobs[0].y_batch = h.y_stride;
    run(p);
}

void Products::run(SkinnyGemmParams &p) {
    std::uint32_t outputs = 0;
    for (std::uint32_t i = 0; i < p.n_jobs; ++i) outputs += p.jobs[i].outputs;
    p.tiles = skinny_gemm_tiles(p.max_rows, outputs * std::max(1U, p.batches), p.inputs,
                                static_cast<std::uint32_t>(n_sms_));
    const SkinnyGemmWorkspace needed = skinny_gemm_workspace(p);
    KIMI_CHECK(needed.partial <= partial_.size() && needed.arrived <= arrived_.size());
    p.partial = partial_.data();
    p.arrived = arrived_.data();
    skinny_gemm(p, stream_);
}

void Products::experts(const RouterShape &shape, const ExpertWeights &w, const float *logits,
                       const float *bias, const bf16 *x, float *y, const std::uint32_t *n_rows,
                       std::uint32_t max_rows) {
    const MoePlan plan{n_tiles_.data(), n_groups_.data(), tiles_.data(),
                       groups_.data(),  pair_row_.data(), pair_weight_.data()};
    moe_route({logits, bias, n_rows, max_rows, shape.n_experts, shape.top_k, shape.normalize,
               shape.scale, ids_.data(), weights_.data(), plan, w.held.data()},
              stream_);
    moe_experts({x, plan, max_rows, shape.top_k, w.n_held, hidden_, w.width, w.gate_up.data(),
                 w.down.data(), act_.data(), y, n_rows, true, n_sms_},
                stream_);
}

}  // namespace kimi::cuda
