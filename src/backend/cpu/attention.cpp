#include "backend/cpu/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace kimi {
namespace {

// Queries (rows times heads) that share one staged page: enough to repay its conversion to fp32,
// few enough that their accumulators stay in the cache.
constexpr std::uint32_t kBlockQueries = 64;

// Tokens that a row sees, counted along its own path.
std::uint32_t context(const StepPlan &plan, std::uint32_t row) {
    return plan.base[row] + static_cast<std::uint32_t>(std::popcount(plan.word[row]));
}

// The tile's slots mean the same for every row whose tree begins behind it.
bool is_shared(const StepPlan &plan, std::uint32_t row, std::uint32_t tile) {
    return plan.word[row] == 0 || plan.base[row] >= (tile + 1) * kPageTokens;
}

std::uint32_t visible(std::uint32_t context, std::uint32_t tile) {
    const std::uint32_t begin = tile * kPageTokens;
    return context <= begin ? 0 : std::min(context - begin, kPageTokens);
}

}  // namespace

CpuAttention::CpuAttention(const CpuKernels &kernels, ThreadPool &pool, const DeviceLimits &limits)
    : k_(&kernels),
      pool_(&pool),
      dim_(limits.mla.kv_rank + limits.mla.rope_dim),
      kv_rank_(limits.mla.kv_rank),
      n_heads_(limits.mla.n_heads),
      rows_per_block_(std::max(1U, kBlockQueries / n_heads_)),
      max_queries_(rows_per_block_ * n_heads_),
      max_splits_((limits.context + kMaxTreeNodes) / kSplitTokens + 1),
      partial_floats_(std::size_t{max_queries_} * (kv_rank_ + 2)) {
    blocks_.reserve(limits.rows);
    scratch_floats_ = std::size_t{kPageTokens} * dim_ + std::size_t{max_queries_} * kPageTokens +
                      2 * partial_floats_;
    scratch_ = HostMemory(pool.n_threads() * scratch_floats_ * sizeof(float), "attention");
    const std::size_t parallel_blocks = 2 * pool.n_threads();
    partials_ = HostMemory(parallel_blocks * max_splits_ * partial_floats_ * sizeof(float),
                           "attention over split contexts");
}

void CpuAttention::make_blocks(const StepPlan &plan) {
    blocks_.clear();
    for (const PlanSequence &sequence : plan.sequences) {
        const std::uint32_t end = sequence.first_row + sequence.n_rows;
        for (std::uint32_t row = sequence.first_row; row < end; row += rows_per_block_) {
            const std::uint32_t n_rows = std::min(rows_per_block_, end - row);
            std::uint32_t longest = 0;
            for (std::uint32_t r = row; r < row + n_rows; ++r)
                longest = std::max(longest, context(plan, r));
            blocks_.push_back({&sequence, row, n_rows, (longest - 1) / kSplitTokens + 1});
        }
    }
}

CpuAttention::Partial CpuAttention::partial_at(float *memory) const {
    float *max = memory + std::size_t{max_queries_} * kv_rank_;
    return {memory, max, max + max_queries_};
}

CpuAttention::Scratch CpuAttention::scratch(unsigned thread) const {
    float *keys = scratch_.floats() + thread * scratch_floats_;
    float *scores = keys + std::size_t{kPageTokens} * dim_;
    float *split = scores + std::size_t{max_queries_} * kPageTokens;
    return {keys, scores, partial_at(split), partial_at(split + partial_floats_)};
}

void CpuAttention::run(std::uint32_t layer, const CpuKvCache &kv, const MlaShape &shape,
                       const StepPlan &plan, const float *queries, float *out) {
    const Pass pass{layer, kv, shape, plan, queries, out};
    make_blocks(plan);
    if (blocks_.size() > 2 * pool_->n_threads()) {
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

// Rows for which the tile is shared read it together; each of the others has its own tokens in it:
// the end of the prefix, then its ancestors in depth order, as if they were stored one after the
// other.
void CpuAttention::attend_tile(const Pass &pass, const Block &block, std::uint32_t tile,
                               const Scratch &s, const Partial &out) const {
    const StepPlan &plan = pass.plan;
    const std::uint32_t begin = tile * kPageTokens, end = block.first_row + block.n_rows;
    const std::span<const std::uint32_t> pages = block.sequence->pages;
    const auto stage = [&](std::uint32_t i, std::uint32_t slot) {
        pass.kv.load(pass.layer, pages[slot / kPageTokens], slot % kPageTokens,
                     s.keys + std::size_t{i} * dim_);
    };
    const auto clear_from = [&](std::uint32_t i) {
        std::fill_n(s.keys + std::size_t{i} * dim_, std::size_t{kPageTokens - i} * dim_, 0.0f);
    };

    std::uint32_t n_staged = 0;
    for (std::uint32_t row = block.first_row; row < end; ++row)
        if (is_shared(plan, row, tile))
            n_staged = std::max(n_staged, visible(plan.base[row], tile));
    for (std::uint32_t i = 0; i < n_staged; ++i) stage(i, begin + i);
    if (n_staged > 0) {
        clear_from(n_staged);
        for (std::uint32_t row = block.first_row; row < end;) {
            const auto reads = [&](std::uint32_t r) {
                return is_shared(plan, r, tile) && visible(plan.base[r], tile) > 0;
            };
            std::uint32_t n = 0;
            while (row + n < end && reads(row + n)) ++n;
            if (n > 0) attend_rows(pass, block, row, n, tile, s, out);
            row += std::max(n, 1U);
        }
    }
    for (std::uint32_t row = block.first_row; row < end; ++row) {
        const std::uint32_t n = visible(context(plan, row), tile);
        if (is_shared(plan, row, tile) || n == 0) continue;
        const std::uint32_t base = plan.base[row];
        std::uint64_t path = plan.word[row];
        for (std::uint32_t skip = base; skip < begin; ++skip) path &= path - 1;
        for (std::uint32_t i = 0; i < n; ++i) {
            if (begin + i < base) {
                stage(i, begin + i);
            } else {
                stage(i, base + static_cast<std::uint32_t>(std::countr_zero(path)));
                path &= path - 1;
            }
        }
        clear_from(n);
        attend_rows(pass, block, row, 1, tile, s, out);
    }
}

// Adds the staged tile to the partial results of n_rows rows.
void CpuAttention::attend_rows(const Pass &pass, const Block &block, std::uint32_t row,
                               std::uint32_t n_rows, std::uint32_t tile, const Scratch &s,
                               const Partial &out) const {
    const std::uint32_t n_queries = n_rows * n_heads_;
    const std::uint32_t first = (row - block.first_row) * n_heads_;
    k_->scores(pass.queries + std::size_t{row} * n_heads_ * dim_, n_queries, s.keys, dim_,
               kPageTokens, dim_, pass.shape.scale, s.scores);
    float *y = out.out + std::size_t{first} * kv_rank_;
    for (std::uint32_t q = 0; q < n_queries; ++q) {
        const std::uint32_t n = visible(context(pass.plan, row + q / n_heads_), tile);
        const float rescale =
            k_->softmax_tile(s.scores + std::size_t{q} * kPageTokens, 0, n, kPageTokens,
                             out.max + first + q, out.sum + first + q);
        if (rescale != 1.0f) k_->scale(y + std::size_t{q} * kv_rank_, rescale, kv_rank_);
    }
    k_->weighted_sum(s.scores, n_queries, s.keys, dim_, kPageTokens, kv_rank_, y, kv_rank_);
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

void CpuAttention::finish(const Pass &pass, const Block &block, const Partial &total) const {
    float *out = pass.out + std::size_t{block.first_row} * n_heads_ * kv_rank_;
    for (std::uint32_t q = 0; q < block.n_rows * n_heads_; ++q, out += kv_rank_) {
        std::memcpy(out, total.out + std::size_t{q} * kv_rank_, kv_rank_ * sizeof(float));
        k_->scale(out, 1.0f / total.sum[q], kv_rank_);
    }
}

}  // namespace kimi
