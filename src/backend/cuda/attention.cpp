#include "backend/cuda/attention.h"

#include <algorithm>

#include "kernels/attention_merge.h"
#include "kernels/draft_prepare.h"
#include "kernels/mla_prepare.h"
#include "kernels/mla_verify_paged.h"

namespace kimi::cuda {
namespace {

// Parts of the drafter's context: it is short beside the target's heads.
constexpr std::uint32_t kMaxDraftSplits = 32;

const bf16 *bf16s(const Vector &w) {
    return reinterpret_cast<const bf16 *>(w.data);
}

}  // namespace

Attention::Attention(const DeviceLimits &limits, int n_sms, cudaStream_t stream)
    : stream_(stream), n_sms_(n_sms), draft_(limits.draft) {
    if (limits.kv.n_shards > 1) exchange_.emplace(limits, stream);
    const std::uint32_t n_heads = exchange_ ? exchange_->n_heads() : limits.mla.n_heads;
    const auto heads = static_cast<int>(n_heads);
    splits_ = mla_splits(n_sms, heads, 1);
    // Every context splits alike: the deployment's longest decides how many parts there can be.
    const MlaBucket bucket{static_cast<int>(kMaxRows), heads, 1,
                           static_cast<int>(limits.kv.held(limits.context + kMaxTreeNodes))};
    const std::size_t parts =
        static_cast<std::size_t>(mla_grid(bucket, splits_, n_sms, {}).parts());
    const std::size_t queries = std::size_t{kMaxRows} * limits.mla.n_heads,
                      attended = std::size_t{kMaxRows} * n_heads;
    const std::size_t draft_queries = std::size_t{kMaxRows} * draft_.n_heads;
    draft_splits_ =
        draft_.n_heads == 0
            ? 0
            : std::clamp(static_cast<unsigned>(n_sms) / draft_.n_kv_heads, 1U, kMaxDraftSplits);
    q_absorbed_ = {queries * kMlaDim, "queries"};
    latents_ = {queries * kMlaLatent, "attention outputs"};
    draft_q_ = {draft_queries * draft_.head_dim, "queries"};
    draft_block_ = {std::size_t{kMaxRows} * 2 * draft_.kv_dim(), "drafted keys and values"};
    const std::size_t draft_parts = draft_splits_ + 1;
    part_out_ = {
        std::max(parts * attended * kMlaLatent, draft_parts * draft_queries * draft_.head_dim),
        "partial attention"};
    part_lse_ = {std::max(parts * attended, draft_parts * draft_queries), "partial attention"};
    n_parts_ = {kMaxRows, "partial attention"};
}

void Attention::merge(const PassTables &tables, std::uint32_t n_heads, std::uint32_t dim,
                      bf16 *out) {
    attention_merge({part_out_.data(), part_lse_.data(), n_parts_.data(), &tables.rows()->n_rows,
                     static_cast<int>(n_heads), static_cast<int>(dim), static_cast<int>(kMaxRows),
                     static_cast<int>(tables.shape().rows), out, nullptr, nullptr},
                    stream_);
}

// q' = q_nope W_UK | rope(q_rope); latents = attend(q'); out = latents W_UV
void Attention::attend(const Pass &pass) {
    const MlaShape &s = pass.shape;
    const std::uint32_t q_dim = s.nope_dim + s.rope_dim, n = pass.tables.shape().rows;
    const std::uint32_t *const n_rows = &pass.tables.rows()->n_rows;
    mla_prepare(
        {pass.new_kv, bf16s(pass.weights.kv_norm), pass.rope, pass.q, q_absorbed_.data(),
         pass.kv.pages(pass.layer), pass.tables.rows()->cell, n_rows, n, s.n_heads, s.nope_dim,
         pass.kv.fp8(), pass.weights.norm_eps, pass.kv.shard(), pass.kv.fresh(pass.layer)},
        stream_);

    pass.products.heads({pass.q, q_dim, pass.absorbed.keys.data(), s.nope_dim, s.kv_rank,
                         q_absorbed_.data(), kMlaDim, s.n_heads},
                        n_rows, n);
    if (exchange_) {
        attend_parts(pass, exchange_->gather(pass.collectives, q_absorbed_.data(), n),
                     exchange_->n_heads());
        merge_ranks(pass);
    } else {
        attend_parts(pass, q_absorbed_.data(), s.n_heads);
        merge(pass.tables, s.n_heads, s.kv_rank, latents_.data());
    }
    pass.products.heads({latents_.data(), s.kv_rank, pass.absorbed.values.data(), s.kv_rank,
                         s.v_dim, pass.out, s.v_dim, s.n_heads},
                        n_rows, n);
}

void Attention::attend_parts(const Pass &pass, const bf16 *q, std::uint32_t n_heads) {
    const PassShape &shape = pass.tables.shape();
    MlaVerifyParams verify = {};
    verify.q = q;
    verify.kv = pass.kv.pages(pass.layer);
    verify.fp8 = pass.kv.fp8();
    verify.n_heads = static_cast<int>(n_heads);
    verify.scale = pass.shape.scale;
    verify.step = pass.tables.step();
    verify.grid =
        mla_grid({static_cast<int>(shape.widest), verify.n_heads, static_cast<int>(shape.sequences),
                  static_cast<int>(pass.kv.shape().held(shape.context))},
                 splits_, n_sms_, {});
    verify.part_out = part_out_.data();
    verify.part_lse = part_lse_.data();
    verify.n_parts = n_parts_.data();
    verify.row_capacity = static_cast<int>(kMaxRows);
    verify.shard = pass.kv.shard();
    verify.fresh = pass.kv.fresh(pass.layer);
    mla_verify_paged(verify, stream_);
}

// The parts of this rank, then those of all.
void Attention::merge_ranks(const Pass &pass) {
    const std::uint32_t *const n_rows = &pass.tables.rows()->n_rows;
    const std::uint32_t max_rows = pass.tables.shape().rows;
    attention_merge({part_out_.data(), part_lse_.data(), n_parts_.data(), n_rows,
                     static_cast<int>(exchange_->n_heads()), kMlaLatent, static_cast<int>(kMaxRows),
                     static_cast<int>(max_rows), nullptr, exchange_->out(), exchange_->lse(),
                     static_cast<int>(pass.shape.n_heads)},
                    stream_);
    exchange_->merge(pass.collectives, n_rows, max_rows, latents_.data());
}

void Attention::draft_write(const PassTables &tables, const CudaKv &kv, DraftLayerRef layer,
                            const DraftNorms &norms, const float *k, const float *v,
                            const float *rope) {
    const PassRows *const rows = tables.rows();
    draft_prepare({nullptr, k, v, bf16s(norms.q), bf16s(norms.k), rope, nullptr, kv.draft(layer),
                   layer.sliding ? rows->ring_cell : rows->cell, &rows->n_rows, tables.shape().rows,
                   draft_.n_heads, draft_.n_kv_heads, draft_.head_dim, norms.eps},
                  stream_);
}

void Attention::draft_attend(const PassTables &tables, const CudaKv &kv, DraftLayerRef layer,
                             const DraftNorms &norms, const float *q, const float *k,
                             const float *v, const float *rope, bf16 *out) {
    const PassRows *const rows = tables.rows();
    draft_prepare({q, k, v, bf16s(norms.q), bf16s(norms.k), rope, draft_q_.data(),
                   draft_block_.data(), nullptr, &rows->n_rows, tables.shape().rows, draft_.n_heads,
                   draft_.n_kv_heads, draft_.head_dim, norms.eps},
                  stream_);
    DraftAttendParams p = {};
    p.q = draft_q_.data();
    p.block = draft_block_.data();
    p.context = kv.draft(layer);
    p.n_sequences = &rows->n_sequences;
    p.sequences = layer.sliding ? rows->sliding : rows->full;
    p.pages = layer.sliding ? nullptr : tables.pages();
    p.pages_stride = tables.pages_stride();
    p.ring_slots = draft_.ring_slots;
    p.window = layer.sliding ? draft_.window : 0;
    p.max_sequences = tables.shape().sequences;
    p.max_rows = tables.shape().widest;
    p.max_context = tables.shape().context;
    p.splits = draft_splits_;
    p.n_heads = draft_.n_heads;
    p.n_kv_heads = draft_.n_kv_heads;
    p.dim = draft_.head_dim;
    p.part_out = part_out_.data();
    p.part_lse = part_lse_.data();
    p.n_parts = n_parts_.data();
    p.row_capacity = static_cast<int>(kMaxRows);
    kimi::draft_attend(p, stream_);
    merge(tables, draft_.n_heads, draft_.head_dim, out);
}

}  // namespace kimi::cuda
