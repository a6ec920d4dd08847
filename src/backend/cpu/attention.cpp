#include "backend/cpu/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace kimi {
namespace {

// Queries (rows times heads) that share one staged tile: enough to repay its conversion to fp32,
// few enough that their accumulators stay in the cache.
constexpr std::uint32_t kBlockQueries = 96;

// Of the first `context` positions, those that lie in the tile.
std::uint32_t in_tile(std::uint32_t context, std::uint32_t tile) {
    const std::uint32_t begin = tile * kPageTokens;
    return context <= begin ? 0 : std::min(context - begin, kPageTokens);
}

// Brings a stretch of memory into the second-level cache, piece by piece between computations: a
// core has too few outstanding reads for all of it at once.
class Prefetch {
  public:
    static constexpr std::uint32_t kPieces = 32;

    Prefetch(const std::byte *begin, std::size_t bytes)
        : next_(begin), end_(begin + bytes), piece_(bytes / kPieces) {}
    void next_piece() {
        const std::byte *stop = std::min(end_, next_ + piece_);
        for (; next_ < stop; next_ += 64) __builtin_prefetch(next_, 0, 2);
    }

  private:
    const std::byte *next_, *end_;
    std::size_t piece_;
};

std::uint32_t rows_per_block(std::uint32_t n_heads) {
    return std::max(1U, kBlockQueries / n_heads);
}
std::uint32_t splits_for(std::uint32_t context) {
    return (context + kMaxTreeNodes) / CpuAttention::kSplitTokens + 1;
}
// Blocks whose splits are computed in parallel.
unsigned parallel_blocks(unsigned n_threads) {
    return 2 * n_threads;
}

std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) {
    return (a + b - 1) / b;
}

}  // namespace

std::size_t cpu_split_bytes(std::uint32_t n_heads, std::uint32_t kv_rank, std::uint32_t context,
                            unsigned n_threads) {
    return std::size_t{parallel_blocks(n_threads)} * splits_for(context) * rows_per_block(n_heads) *
           n_heads * (kv_rank + 2) * sizeof(float);
}

std::uint32_t CpuAttention::Row::context() const {
    return base + static_cast<std::uint32_t>(std::popcount(path));
}

CpuAttention::CpuAttention(const CpuKernels &kernels, ThreadPool &pool, const DeviceLimits &limits,
                           const HostHeap &heap)
    : k_(&kernels),
      pool_(&pool),
      dim_(limits.mla.kv_rank + limits.mla.rope_dim),
      kv_rank_(limits.mla.kv_rank),
      n_heads_(limits.mla.n_heads * limits.kv.n_shards),
      rows_per_block_(rows_per_block(n_heads_)),
      max_queries_(rows_per_block_ * n_heads_),
      max_splits_(splits_for(limits.context)),
      partial_floats_(std::size_t{max_queries_} * (kv_rank_ + 2)) {
    rows_.reserve(limits.rows);
    blocks_.reserve(limits.rows);
    scratch_floats_ = 2 * std::size_t{kPageTokens} * (dim_ + max_queries_) + 2 * partial_floats_;
    scratch_ = HostMemory(heap, pool.n_threads() * scratch_floats_ * sizeof(float), "attention");
    partials_ =
        HostMemory(heap, cpu_split_bytes(n_heads_, kv_rank_, limits.context, pool.n_threads()),
                   "attention over split contexts");
}

void CpuAttention::make_rows(const StepPlan &plan, const KvShape &kv) {
    rows_.clear();
    for (std::uint32_t r = 0; r < plan.n_rows(); ++r) {
        Row row{plan.base[r], plan.word[r]};
        if ((row.path & (row.path + 1)) == 0) row = {row.context(), 0};
        Row held{kv.held(row.base), 0};
        std::uint32_t position = row.base;
        for (std::uint64_t path = row.path; path != 0; path &= path - 1, ++position)
            if (kv.shard_of(position) == kv.shard) held.path |= path & -path;
        rows_.push_back(held);
    }
}

// Few large blocks read the pages less often; with few splits there must be work for all threads.
void CpuAttention::make_blocks(const StepPlan &plan, const KvShape &kv) {
    make_rows(plan, kv);
    blocks_.clear();
    for (const PlanSequence &sequence : plan.sequences) {
        std::uint32_t longest = 0;
        for (std::uint32_t r = 0; r < sequence.n_rows; ++r)
            longest = std::max(longest, rows_[sequence.first_row + r].context());
        const std::uint32_t n_splits = ceil_div(longest, kSplitTokens);
        const std::uint32_t wanted = std::max(ceil_div(sequence.n_rows, rows_per_block_),
                                              ceil_div(pool_->n_threads(), std::max(1U, n_splits)));
        const std::uint32_t n_rows = ceil_div(sequence.n_rows, wanted);
        for (std::uint32_t r = 0; r < sequence.n_rows; r += n_rows)
            blocks_.push_back({sequence.pages, sequence.first_row, sequence.first_row + r,
                               std::min(n_rows, sequence.n_rows - r), n_splits});
    }
}

CpuAttention::Partial CpuAttention::partial_at(float *memory) const {
    float *max = memory + std::size_t{max_queries_} * kv_rank_;
    return {memory, max, max + max_queries_};
}

CpuAttention::Scratch CpuAttention::scratch(unsigned thread) const {
    Scratch s;
    s.keys = scratch_.floats() + thread * scratch_floats_;
    s.tree_keys = s.keys + std::size_t{kPageTokens} * dim_;
    s.scores = s.tree_keys + std::size_t{kPageTokens} * dim_;
    s.tree_scores = s.scores + std::size_t{max_queries_} * kPageTokens;
    s.split = partial_at(s.tree_scores + std::size_t{max_queries_} * kPageTokens);
    s.total = partial_at(s.split.out + partial_floats_);
    return s;
}

void CpuAttention::run(std::uint32_t layer, const CpuKvCache &kv, const CpuKvCache &pass_kv,
                       const MlaShape &shape, const StepPlan &plan, const float *queries,
                       const Partial &out) {
    const Pass pass{layer, kv, pass_kv, shape, queries, out};
    make_blocks(plan, kv.shape());
    if (blocks_.size() > parallel_blocks(pool_->n_threads())) {
        pool_->run(blocks_.size(), [&](std::size_t b, unsigned thread) {
            const Scratch s = scratch(thread);
            std::fill_n(s.total.sum, max_queries_, 0.0f);
            for (std::uint32_t split = 0; split < blocks_[b].n_splits; ++split) {
                attend_split(pass, blocks_[b], split, s, s.split);
                merge(blocks_[b].n_rows * n_heads_, s.total, s.split);
            }
            finish(pass, blocks_[b], s.total);
        });
        return;
    }
    const auto partial = [&](std::size_t b, std::size_t split) {
        return partial_at(partials_.floats() + (b * max_splits_ + split) * partial_floats_);
    };
    std::size_t n_tasks = 0;
    for (const Block &block : blocks_) n_tasks += block.n_splits;
    pool_->run(n_tasks, [&](std::size_t task, unsigned thread) {
        std::size_t b = 0;
        for (; task >= blocks_[b].n_splits; ++b) task -= blocks_[b].n_splits;
        const auto split = static_cast<std::uint32_t>(task);
        attend_split(pass, blocks_[b], split, scratch(thread), partial(b, split));
    });
    pool_->run(blocks_.size(), [&](std::size_t b, unsigned thread) {
        const Partial total = scratch(thread).total;
        std::fill_n(total.sum, max_queries_, 0.0f);
        for (std::uint32_t split = 0; split < blocks_[b].n_splits; ++split)
            merge(blocks_[b].n_rows * n_heads_, total, partial(b, split));
        finish(pass, blocks_[b], total);
    });
}

void CpuAttention::attend_split(const Pass &pass, const Block &block, std::uint32_t split,
                                const Scratch &s, const Partial &out) const {
    const std::uint32_t n_queries = block.n_rows * n_heads_;
    std::fill_n(out.out, std::size_t{n_queries} * kv_rank_, 0.0f);
    std::fill_n(out.max, n_queries, -std::numeric_limits<float>::infinity());
    std::fill_n(out.sum, n_queries, 0.0f);
    constexpr std::uint32_t kTiles = kSplitTokens / kPageTokens;
    for (std::uint32_t tile = split * kTiles; tile < (split + 1) * kTiles; ++tile)
        attend_tile(pass, block, tile, s, out);
}

// Converts n tokens to fp32 keys; zeros fill up to the multiple of 4 that it returns.
template <typename Load>
std::uint32_t CpuAttention::stage(std::uint32_t n, float *keys, const Load &load) const {
    for (std::uint32_t i = 0; i < n; ++i) load(i, keys + std::size_t{i} * dim_);
    const std::uint32_t padded = ceil_div(n, 4) * 4;
    std::fill_n(keys + std::size_t{n} * dim_, std::size_t{padded - n} * dim_, 0.0f);
    return padded;
}

// All rows of the block read the tile's part of the prefix, and those whose path reaches into the
// tile also the tree's rows, of which their own ancestors count.
void CpuAttention::attend_tile(const Pass &pass, const Block &block, std::uint32_t tile,
                               const Scratch &s, const Partial &out) const {
    const std::span<const Row> rows = std::span(rows_).subspan(block.first_row, block.n_rows);
    std::uint32_t n_prefix = 0, n_tree = 0;
    for (const Row &row : rows) {
        n_prefix = std::max(n_prefix, in_tile(row.base, tile));
        if (in_tile(row.context(), tile) == in_tile(row.base, tile)) continue;
        n_tree = std::max(n_tree, static_cast<std::uint32_t>(std::bit_width(row.path)));
    }
    if (n_prefix + n_tree == 0) return;

    const std::uint32_t n_queries = block.n_rows * n_heads_;
    const float *queries = pass.queries + std::size_t{block.first_row} * n_heads_ * dim_;
    const std::uint32_t page_tokens = pass.kv.shape().page_tokens();
    const std::size_t next = (std::size_t{tile} + 1) * kPageTokens / page_tokens;
    const bool more = next < block.pages.size();
    Prefetch next_page(pass.kv.page(pass.layer, block.pages[more ? next : 0]),
                       more ? pass.kv.shape().page_bytes() : 0);
    const auto score = [&](std::uint32_t n_keys, const float *keys, float *scores) {
        constexpr std::uint32_t kPiece = kPageTokens / (Prefetch::kPieces / 2);
        for (std::uint32_t i = 0; i < n_keys; i += kPiece) {
            next_page.next_piece();
            k_->scores(queries, n_queries, keys + std::size_t{i} * dim_, dim_,
                       std::min(kPiece, n_keys - i), dim_, pass.shape.scale, scores + i,
                       kPageTokens);
        }
    };
    const auto prefix_key = [&](std::uint32_t i, float *key) {
        const std::uint32_t position = tile * kPageTokens + i;
        pass.kv.load(pass.layer, block.pages[position / page_tokens], position % page_tokens, key);
    };
    const auto tree_key = [&](std::uint32_t i, float *key) {
        const std::uint32_t row = block.root + i;
        pass.pass_kv.load(0, row / kPageTokens, row % kPageTokens, key);
    };
    score(stage(n_prefix, s.keys, prefix_key), s.keys, s.scores);
    score(stage(n_tree, s.tree_keys, tree_key), s.tree_keys, s.tree_scores);

    for (std::uint32_t q = 0; q < n_queries; ++q) {
        const std::size_t at = std::size_t{q} * kPageTokens;
        const float rescale = softmax(rows[q / n_heads_], tile, s.scores + at, s.tree_scores + at,
                                      out.max + q, out.sum + q);
        if (rescale != 1.0f) k_->scale(out.out + std::size_t{q} * kv_rank_, rescale, kv_rank_);
    }
    const auto add = [&](const float *weights, const float *keys, std::uint32_t n) {
        const std::uint32_t piece = ceil_div(kv_rank_ / 16, Prefetch::kPieces / 2) * 16;
        for (std::uint32_t c = 0; n > 0 && c < kv_rank_; c += piece) {
            next_page.next_piece();
            k_->weighted_sum(weights, kPageTokens, n_queries, keys + c, dim_, n,
                             std::min(piece, kv_rank_ - c), out.out + c, kv_rank_);
        }
    };
    add(s.scores, s.keys, n_prefix);
    add(s.tree_scores, s.tree_keys, n_tree);
}

// Turns the scores of one query into weights: over its own positions in the tile, prefix first,
// then its ancestors in depth order. All others get weight 0, which changes no bit of a sum.
float CpuAttention::softmax(const Row &row, std::uint32_t tile, float *scores, float *tree_scores,
                            float *max, float *sum) const {
    const std::uint32_t n_prefix = in_tile(row.base, tile), n = in_tile(row.context(), tile);
    float path_scores[kPageTokens];
    float *weights = n > n_prefix ? path_scores : scores;
    // Ancestors that lie in earlier tiles.
    std::uint64_t path = row.path;
    for (std::uint32_t p = row.base; p < tile * kPageTokens && path != 0; ++p) path &= path - 1;
    if (n > n_prefix) {
        std::copy_n(scores, n_prefix, path_scores);
        std::uint64_t rest = path;
        for (std::uint32_t i = n_prefix; i < n; ++i, rest &= rest - 1)
            path_scores[i] = tree_scores[std::countr_zero(rest)];
    }
    const float rescale = n > 0 ? k_->softmax_tile(weights, 0, n, max, sum) : 1.0f;
    std::fill_n(tree_scores, kPageTokens, 0.0f);
    if (n > n_prefix) {
        std::copy_n(path_scores, n_prefix, scores);
        for (std::uint32_t i = n_prefix; i < n; ++i, path &= path - 1)
            tree_scores[std::countr_zero(path)] = path_scores[i];
    }
    std::fill_n(scores + n_prefix, kPageTokens - n_prefix, 0.0f);
    return rescale;
}

// An empty total (sum 0) takes the part over; an empty part leaves the total as it is.
void CpuAttention::merge(std::uint32_t n_queries, const Partial &total, const Partial &part) const {
    for (std::uint32_t q = 0; q < n_queries; ++q) {
        float *to = total.out + std::size_t{q} * kv_rank_;
        const float *from = part.out + std::size_t{q} * kv_rank_;
        if (part.sum[q] == 0) continue;
        if (total.sum[q] == 0) {
            std::memcpy(to, from, kv_rank_ * sizeof(float));
            total.max[q] = part.max[q];
            total.sum[q] = part.sum[q];
            continue;
        }
        const float max = std::max(total.max[q], part.max[q]);
        const auto weight = [max](float m) { return std::exp(std::max(kExpFloor, m - max)); };
        const float a = weight(total.max[q]), b = weight(part.max[q]);
        k_->scale(to, a, kv_rank_);
        k_->add_scaled(to, b, from, kv_rank_);
        total.max[q] = max;
        total.sum[q] = total.sum[q] * a + part.sum[q] * b;
    }
}

CpuAttention::Partial CpuAttention::at(const Partial &partial, std::size_t query) const {
    return {partial.out + query * kv_rank_, partial.max + query, partial.sum + query};
}

void CpuAttention::finish(const Pass &pass, const Block &block, const Partial &total) const {
    const std::size_t n = std::size_t{block.n_rows} * n_heads_;
    const Partial to = at(pass.out, std::size_t{block.first_row} * n_heads_);
    std::memcpy(to.out, total.out, n * kv_rank_ * sizeof(float));
    std::memcpy(to.max, total.max, n * sizeof(float));
    std::memcpy(to.sum, total.sum, n * sizeof(float));
}

void CpuAttention::combine(std::span<const Partial *const> parts, std::uint32_t first_head,
                           std::uint32_t n_heads, std::uint32_t n_rows, const Partial &to) {
    pool_->run(n_rows, [&](std::size_t row, unsigned thread) {
        const Partial total = scratch(thread).total;
        for (std::uint32_t h = first_head; h < first_head + n_heads; ++h) {
            const std::size_t query = row * n_heads_ + h;
            *total.sum = 0;
            for (const Partial *part : parts) merge(1, total, at(*part, query));
            k_->scale(total.out, 1.0f / *total.sum, kv_rank_);
            std::memcpy(at(to, query).out, total.out, kv_rank_ * sizeof(float));
        }
    });
}

}  // namespace kimi
