#include "backend/cpu/draft_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kimi {

// Memory of one thread.
struct CpuDraftAttention::Scratch {
    float *keys, *values;  // [64, head_dim]
    float *queries, *out;  // [queries, head_dim]
    float *scores;         // [queries, 64]
    float *max, *sum;      // [queries]
};

// Positions [begin, begin + 64), of which those in [valid_begin, valid_end) are staged.
struct CpuDraftAttention::Tile {
    std::uint32_t begin, valid_begin, valid_end;
    std::uint32_t window;  // 0: everything staged is visible
};

CpuDraftAttention::CpuDraftAttention(const CpuKernels &kernels, ThreadPool &pool,
                                     const DeviceLimits &limits, const HostHeap &heap)
    : k_(&kernels),
      pool_(&pool),
      shape_(limits.draft),
      type_(limits.kv.type == KvType::f32 ? KvType::f32 : KvType::bf16),
      n_pages_(limits.kv.n_pages) {
    if (shape_.n_heads == 0) return;
    group_ = shape_.n_heads / shape_.n_kv_heads;
    max_queries_ = group_ * kPageTokens;  // a block has at most 64 rows
    token_bytes_ = std::size_t{2} * shape_.kv_dim() * (type_ == KvType::bf16 ? 2 : 4);
    pages_ = HostMemory(heap, std::size_t{shape_.n_full} * n_pages_ * page_bytes(),
                        "the drafter's KV pages");
    rings_ = HostMemory(heap, std::size_t{shape_.n_sliding} * shape_.n_rings * ring_bytes(),
                        "the drafter's KV rings");
    scratch_floats_ = std::size_t{2} * (kPageTokens + max_queries_) * shape_.head_dim +
                      std::size_t{max_queries_} * (kPageTokens + 2);
    scratch_ = HostMemory(heap, pool.n_threads() * scratch_floats_ * sizeof(float),
                          "the drafter's attention");
}

CpuDraftAttention::Scratch CpuDraftAttention::scratch(unsigned thread) const {
    Scratch s;
    s.keys = scratch_.floats() + thread * scratch_floats_;
    s.values = s.keys + std::size_t{kPageTokens} * shape_.head_dim;
    s.queries = s.values + std::size_t{kPageTokens} * shape_.head_dim;
    s.out = s.queries + std::size_t{max_queries_} * shape_.head_dim;
    s.scores = s.out + std::size_t{max_queries_} * shape_.head_dim;
    s.max = s.scores + std::size_t{max_queries_} * kPageTokens;
    s.sum = s.max + max_queries_;
    return s;
}

std::byte *CpuDraftAttention::entry(DraftLayerRef layer, const DraftSequence &sequence,
                                    std::uint32_t position) const {
    if (layer.sliding)
        return ring(layer.index, sequence.ring) + position % shape_.ring_slots * token_bytes_;
    return page(layer.index, sequence.pages[position / kPageTokens]) +
           position % kPageTokens * token_bytes_;
}

// Per head: RMSNorm, then rotation of the pairs (x[i], x[i + dim / 2]).
void CpuDraftAttention::normalise_rotate(const Vector &norm, float eps, std::uint32_t n_heads,
                                         float *row, const float *rope) const {
    const std::uint32_t half = shape_.head_dim / 2;
    for (std::uint32_t h = 0; h < n_heads; ++h, row += shape_.head_dim) {
        k_->rms_norm(row, norm.data, shape_.head_dim, eps, row);
        for (std::uint32_t i = 0; i < half; ++i) {
            const float a = row[i], b = row[i + half], cos = rope[i], sin = rope[half + i];
            row[i] = a * cos - b * sin;
            row[i + half] = b * cos + a * sin;
        }
    }
}

void CpuDraftAttention::write(DraftLayerRef layer, const DraftNorms &norms,
                              std::span<const DraftSequence> sequences, Buffer k, Buffer v,
                              Buffer rope) {
    const std::uint32_t n = shape_.kv_dim();
    for (const DraftSequence &sequence : sequences) {
        pool_->run(sequence.n_rows, [&](std::size_t i, unsigned) {
            const std::size_t r = sequence.first_row + i;
            normalise_rotate(norms.k, norms.eps, shape_.n_kv_heads, k.row(r), rope.row(r));
            std::byte *to =
                entry(layer, sequence, sequence.first_position + static_cast<std::uint32_t>(i));
            if (type_ == KvType::bf16) {
                k_->narrow(k.row(r), n, to);
                k_->narrow(v.row(r), n, to + token_bytes_ / 2);
            } else {
                std::memcpy(to, k.row(r), token_bytes_ / 2);
                std::memcpy(to + token_bytes_ / 2, v.row(r), token_bytes_ / 2);
            }
        });
    }
}

void CpuDraftAttention::load(const std::byte *entry, std::uint32_t head, float *key,
                             float *value) const {
    const std::uint32_t n = shape_.head_dim;
    if (type_ == KvType::bf16) {
        k_->widen(entry + std::size_t{head} * n * 2, n, key);
        k_->widen(entry + token_bytes_ / 2 + std::size_t{head} * n * 2, n, value);
    } else {
        std::memcpy(key, entry + std::size_t{head} * n * 4, n * sizeof(float));
        std::memcpy(value, entry + token_bytes_ / 2 + std::size_t{head} * n * 4, n * sizeof(float));
    }
}

void CpuDraftAttention::attend(DraftLayerRef layer, const DraftNorms &norms,
                               std::span<const DraftSequence> sequences, Buffer q, Buffer k,
                               Buffer v, Buffer rope, Buffer out) {
    for (const DraftSequence &sequence : sequences) {
        pool_->run(sequence.n_rows, [&](std::size_t i, unsigned) {
            const std::size_t r = sequence.first_row + i;
            normalise_rotate(norms.q, norms.eps, shape_.n_heads, q.row(r), rope.row(r));
            normalise_rotate(norms.k, norms.eps, shape_.n_kv_heads, k.row(r), rope.row(r));
        });
    }
    pool_->run(sequences.size() * shape_.n_kv_heads, [&](std::size_t task, unsigned thread) {
        attend_head(layer, sequences[task / shape_.n_kv_heads],
                    static_cast<std::uint32_t>(task % shape_.n_kv_heads), q, k, v, scratch(thread),
                    out);
    });
}

// The first context token that a block sees.
std::uint32_t CpuDraftAttention::context_begin(DraftLayerRef layer,
                                               const DraftSequence &sequence) const {
    if (!layer.sliding) return sequence.full_begin;
    const std::uint32_t root = sequence.first_position;
    return std::max(sequence.ring_begin, root >= shape_.window ? root - shape_.window + 1 : 0);
}

std::uint64_t CpuDraftAttention::context_bytes(DraftLayerRef layer,
                                               std::span<const DraftSequence> sequences) const {
    std::uint64_t n_tokens = 0;
    for (const DraftSequence &sequence : sequences)
        n_tokens += sequence.first_position - context_begin(layer, sequence);
    return n_tokens * token_bytes_;
}

// All rows of a block and all query heads that share one KV head: the context page by page, then
// the block.
void CpuDraftAttention::attend_head(DraftLayerRef layer, const DraftSequence &sequence,
                                    std::uint32_t kv_head, Buffer q, Buffer k, Buffer v,
                                    const Scratch &s, Buffer out) const {
    const std::uint32_t dim = shape_.head_dim, n_queries = sequence.n_rows * group_;
    const std::size_t column = std::size_t{kv_head} * group_ * dim;
    for (std::uint32_t r = 0; r < sequence.n_rows; ++r)
        std::memcpy(s.queries + std::size_t{r} * group_ * dim,
                    q.row(sequence.first_row + r) + column,
                    std::size_t{group_} * dim * sizeof(float));
    std::fill_n(s.out, std::size_t{n_queries} * dim, 0.0f);
    std::fill_n(s.max, n_queries, -std::numeric_limits<float>::infinity());
    std::fill_n(s.sum, n_queries, 0.0f);

    const std::uint32_t root = sequence.first_position, begin = context_begin(layer, sequence);
    for (std::uint32_t tile = begin / kPageTokens * kPageTokens; tile < root; tile += kPageTokens) {
        const Tile t{tile, std::max(tile, begin), std::min(tile + kPageTokens, root),
                     layer.sliding ? shape_.window : 0};
        std::fill_n(s.keys, std::size_t{2} * kPageTokens * dim, 0.0f);
        for (std::uint32_t p = t.valid_begin; p < t.valid_end; ++p)
            load(entry(layer, sequence, p), kv_head, s.keys + std::size_t{p - tile} * dim,
                 s.values + std::size_t{p - tile} * dim);
        reduce_tile(sequence, t, s);
    }
    std::fill_n(s.keys, std::size_t{2} * kPageTokens * dim, 0.0f);
    for (std::uint32_t r = 0; r < sequence.n_rows; ++r) {
        const std::size_t from = std::size_t{kv_head} * dim;
        std::memcpy(s.keys + std::size_t{r} * dim, k.row(sequence.first_row + r) + from,
                    dim * sizeof(float));
        std::memcpy(s.values + std::size_t{r} * dim, v.row(sequence.first_row + r) + from,
                    dim * sizeof(float));
    }
    reduce_tile(sequence, {root, root, root + sequence.n_rows, 0}, s);

    for (std::uint32_t i = 0; i < n_queries; ++i) {
        float *to =
            out.row(sequence.first_row + i / group_) + column + std::size_t{i % group_} * dim;
        std::memcpy(to, s.out + std::size_t{i} * dim, dim * sizeof(float));
        k_->scale(to, 1.0f / s.sum[i], dim);
    }
}

void CpuDraftAttention::reduce_tile(const DraftSequence &sequence, const Tile &tile,
                                    const Scratch &s) const {
    const std::uint32_t dim = shape_.head_dim, n_queries = sequence.n_rows * group_;
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    k_->scores(s.queries, n_queries, s.keys, dim, kPageTokens, dim, scale, s.scores, kPageTokens);
    for (std::uint32_t i = 0; i < n_queries; ++i) {
        const std::uint32_t position = sequence.first_position + i / group_;
        std::uint32_t begin = tile.valid_begin;
        if (tile.window > 0 && position >= tile.window)
            begin = std::max(begin, position - tile.window + 1);
        float *scores = s.scores + std::size_t{i} * kPageTokens;
        if (begin >= tile.valid_end) {
            std::fill_n(scores, kPageTokens, 0.0f);
            continue;
        }
        const float rescale = k_->softmax_tile(scores, begin - tile.begin,
                                               tile.valid_end - tile.begin, s.max + i, s.sum + i);
        if (rescale != 1.0f) k_->scale(s.out + std::size_t{i} * dim, rescale, dim);
    }
    k_->weighted_sum(s.scores, kPageTokens, n_queries, s.values, dim, kPageTokens, dim, s.out, dim);
}

}  // namespace kimi
