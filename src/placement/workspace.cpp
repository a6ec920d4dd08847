#include "placement/workspace.h"

#include <algorithm>

#include "backend/step_plan.h"

namespace kimi {
namespace {

constexpr std::uint32_t kSliceRows = 64;  // that the kernels of a GPU take at once
constexpr std::uint32_t kListed = 64;     // likeliest tokens of a drafted position

class Workspace {
  public:
    Workspace(const ModelDims &dims, const Placement &placement, std::uint32_t multiprocessors,
              const WorkLimits &limits)
        : t_(dims.target),
          d_(dims.drafter ? &*dims.drafter : nullptr),
          p_(placement),
          multiprocessors_(multiprocessors),
          limits_(limits),
          rows_(std::max(limits.chunk_rows, kSliceRows)) {}

    std::uint64_t cpu() const {
        const std::uint64_t attention = attended_heads() * (t_.latent_dim() + t_.kv_rank + 2);
        const std::uint64_t experts = 2 * t_.top_k * t_.expert_width / p_.slices();
        return rings() + 4 * rows_ * (activations() + attention + experts + widest_input());
    }

    // Activations are fp32 and, beside that, bf16.
    std::uint64_t cuda() const {
        const std::uint64_t lists = kListed * (sizeof(std::int32_t) + sizeof(double));
        return rings() + rows_ * (6 * activations() + routing() + lists) + split_products() +
               kSliceRows * (attention() + sums() + logits()) + tables();
    }

  private:
    // ---- of a row, elements

    std::uint64_t activations() const { return target_row() + drafter_row(); }
    std::uint64_t target_row() const {
        const std::uint64_t r = p_.ranks;
        const std::uint64_t dense = t_.n_dense_layers > 0 ? t_.dense_width : 0,
                            shared = std::uint64_t{t_.n_shared_experts} * t_.expert_width;
        return 4 * t_.hidden + t_.q_rank + t_.latent_dim() + t_.rope_dim + t_.n_experts +
               t_.n_heads / r * (t_.qk_dim() + t_.v_dim) + 2 * std::max(dense, shared) / r +
               taps() + t_.vocab / r;
    }
    std::uint64_t drafter_row() const {
        if (d_ == nullptr) return 0;
        const std::uint64_t r = p_.ranks;
        return taps() + 4 * t_.hidden + d_->head_dim + 2 * d_->n_heads / r * d_->head_dim +
               2 * p_.kv_heads(*d_) * d_->head_dim + 2 * d_->width / r + t_.vocab / r;
    }
    std::uint64_t taps() const { return d_ == nullptr ? 0 : std::uint64_t{d_->n_taps} * t_.hidden; }
    std::uint64_t widest_input() const { return std::max<std::uint64_t>(t_.hidden, taps()); }

    // ---- of a row, bytes

    // Expert, weight, pair, tile and group of each choice, and its activation.
    std::uint64_t routing() const {
        return t_.top_k * (48 + 2 * std::uint64_t{t_.expert_width} / p_.slices());
    }
    // Absorbed queries and outputs, partial outputs with their log-sum-exp; where attention is
    // split over the context, queries of all ranks, and outputs for them and from them.
    std::uint64_t attention() const {
        const std::uint64_t heads = attended_heads(), absorbed = t_.latent_dim() + t_.kv_rank;
        std::uint64_t bytes = 2 * t_.n_heads / p_.ranks * absorbed;
        bytes += 4 * (context_parts() + 1) * heads * (t_.kv_rank + 1);
        if (heads > t_.n_heads / p_.ranks)
            bytes += heads * (2 * t_.latent_dim() + 8 * (t_.kv_rank + 1));
        return bytes;
    }
    std::uint64_t context_parts() const {
        const std::uint64_t sms = multiprocessors_, splits = attended_heads() > 32 ? sms / 2 : sms;
        return std::min(std::max<std::uint64_t>(8, splits),
                        limits_.context / p_.page_parts() / kPageTokens);
    }
    // Buffers of the collectives, and this rank's part of the embedding and of wide products.
    std::uint64_t sums() const {
        const std::uint64_t bytes = (8 + 4) * t_.hidden;
        return p_.ranks == 1 ? bytes : bytes + (8 + 8) * t_.hidden + 4 * widest_input();
    }
    // Of all ranks.
    std::uint64_t logits() const { return p_.ranks == 1 ? 0 : 4 * std::uint64_t{t_.vocab}; }

    // ---- of all rows, bytes

    // What blocks that share outputs leave for each other: two per multiprocessor, of 32 x 64.
    std::uint64_t split_products() const {
        return std::uint64_t{2} * multiprocessors_ * 32 * 64 * sizeof(float);
    }
    // Of each slice, which may be half full, and of the passes of a step: pages and about 200 bytes
    // per row.
    std::uint64_t tables() const {
        const std::uint64_t slices = rows_ <= kSliceRows
                                         ? 1
                                         : 2 * ((rows_ + kSliceRows - 1) / kSliceRows),
                            pages = limits_.context / kPageTokens + 2;
        return (slices + 3) * kSliceRows * (pages * sizeof(std::uint32_t) + 200);
    }
    std::uint64_t rings() const {
        if (d_ == nullptr) return 0;
        return std::uint64_t{limits_.draft_sessions} * d_->n_sliding_layers *
               (d_->window + kPageTokens) * draft_token_bytes(*d_, p_);
    }

    std::uint64_t attended_heads() const { return p_.attended_heads(t_); }

    const TargetDims &t_;
    const DrafterDims *d_;
    const Placement &p_;
    std::uint32_t multiprocessors_;
    const WorkLimits &limits_;
    std::uint64_t rows_;
};

}  // namespace

std::uint64_t workspace_bytes(const ModelDims &dims, const Placement &placement,
                              std::uint32_t multiprocessors, const WorkLimits &limits) {
    const Workspace workspace(dims, placement, multiprocessors, limits);
    return limits.gpu ? workspace.cuda() : workspace.cpu();
}

std::uint64_t draft_token_bytes(const DrafterDims &dims, const Placement &placement) {
    return std::uint64_t{2} * 2 * dims.head_dim * placement.kv_heads(dims);
}

}  // namespace kimi
