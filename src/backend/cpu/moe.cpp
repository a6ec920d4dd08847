#include "backend/cpu/moe.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kimi {
namespace {

constexpr std::uint32_t round_up(std::uint32_t n) {
    return (n + kInt4Block - 1) / kInt4Block * kInt4Block;
}

// Rows of an expert's matrix that one task computes.
constexpr std::uint32_t kTaskRows = kInt4Block;

std::uint32_t n_tasks(std::uint32_t rows) {
    return (rows + kTaskRows - 1) / kTaskRows;
}

}  // namespace

void route(const RouterShape &shape, const float *logits, const float *bias, std::uint32_t *ids,
           float *weights) {
    const auto score = [&](std::uint32_t e) { return 1.0f / (1.0f + std::exp(-logits[e])); };
    std::uint32_t n = 0;
    float chosen[kMaxTopK];
    for (std::uint32_t e = 0; e < shape.n_experts; ++e) {
        float choice = score(e) + bias[e];
        if (std::isnan(choice)) choice = -std::numeric_limits<float>::infinity();
        if (n == shape.top_k && !(choice > chosen[n - 1])) continue;
        std::uint32_t at = n < shape.top_k ? n++ : n - 1;
        for (; at > 0 && choice > chosen[at - 1]; --at) {
            chosen[at] = chosen[at - 1];
            ids[at] = ids[at - 1];
        }
        chosen[at] = choice;
        ids[at] = e;
    }
    float sum = 0;
    for (std::uint32_t i = 0; i < n; ++i) sum += weights[i] = score(ids[i]);
    const float factor = shape.normalize ? shape.scale / (sum + 1e-20f) : shape.scale;
    for (std::uint32_t i = 0; i < n; ++i) weights[i] *= factor;
}

CpuMoe::CpuMoe(const CpuKernels &kernels, ThreadPool &pool, const DeviceLimits &limits,
               const HostHeap &heap)
    : k_(&kernels),
      pool_(&pool),
      hidden_(limits.hidden),
      padded_hidden_(round_up(hidden_)),
      width_(round_up(limits.expert_width)) {
    const std::size_t pairs = std::size_t{limits.rows} * limits.top_k;
    ids_.resize(pairs);
    pair_of_.resize(pairs);
    weights_.resize(pairs);
    begin_.resize(limits.n_experts + 1);
    groups_.reserve(std::min<std::size_t>(pairs, limits.n_experts));
    x_ = HostMemory(heap, limits.rows * std::size_t{padded_hidden_} * sizeof(float),
                    "expert inputs");
    for (HostMemory *memory : {&gate_, &up_, &act_})
        *memory = HostMemory(heap, pairs * width_ * sizeof(float), "expert activations");
    down_ = HostMemory(heap, pairs * padded_hidden_ * sizeof(float), "expert outputs");
    natural_in_.resize(pairs);
    permuted_in_.resize(pairs);
    const auto rows_of = [&](const HostMemory &memory, std::uint32_t width, auto &pointers) {
        for (std::uint32_t i = 0; i < pairs; ++i) pointers.push_back(row(memory, i, width));
    };
    rows_of(gate_, width_, natural_act_);
    rows_of(act_, width_, permuted_act_);
    rows_of(gate_, width_, gate_out_);
    rows_of(up_, width_, up_out_);
    rows_of(down_, padded_hidden_, down_out_);
}

// Sorts the (row, choice) pairs that this rank computes by expert, rows ascending.
void CpuMoe::group_pairs(const RouterShape &shape, std::span<const Expert> experts,
                         std::span<const std::uint32_t> position) {
    const std::size_t pairs = position.size() * shape.top_k;
    std::fill(begin_.begin(), begin_.end(), 0U);
    for (std::size_t i = 0; i < pairs; ++i) {
        const Expert &e = experts[ids_[i]];
        const bool mine = e.n_copies > 0 && position[i / shape.top_k] % e.n_copies == e.copy;
        pair_of_[i] = mine ? 0 : kElsewhere;
        begin_[ids_[i] + 1] += mine;
    }
    for (std::size_t e = 1; e < begin_.size(); ++e) begin_[e] += begin_[e - 1];
    groups_.clear();
    for (std::uint32_t e = 0; e < shape.n_experts; ++e)
        if (begin_[e + 1] > begin_[e]) groups_.push_back({e, begin_[e], begin_[e + 1] - begin_[e]});
    for (std::size_t i = 0; i < pairs; ++i)
        if (pair_of_[i] != kElsewhere) pair_of_[i] = begin_[ids_[i]]++;
}

// Gate, up and their SwiGLU for kTaskRows of the expert's inner width.
void CpuMoe::gate_up(const Expert &expert, const Group &group, std::uint32_t begin) {
    const std::uint32_t end = std::min(begin + kTaskRows, expert.gate.rows);
    const auto product = [&](const Matrix &w, float *const *out) {
        const auto &in = w.type == WeightType::int4 ? permuted_in_ : natural_in_;
        k_->linear(w, begin, end, in.data() + group.first, group.n, out + group.first);
    };
    product(expert.gate, gate_out_.data());
    product(expert.up, up_out_.data());
    for (std::uint32_t i = group.first; i < group.first + group.n; ++i) {
        k_->swiglu(gate_out_[i] + begin, up_out_[i] + begin, end - begin);
        if (expert.down.type == WeightType::int4)
            k_->permute_int4(gate_out_[i] + begin, end - begin, row(act_, i, width_) + begin);
    }
}

void CpuMoe::run(const RouterShape &shape, Buffer logits, const float *bias,
                 std::span<const Expert> experts, std::span<const std::uint32_t> position, Buffer x,
                 Buffer y) {
    const auto n_rows = static_cast<std::uint32_t>(position.size());
    for (std::uint32_t r = 0; r < n_rows; ++r)
        route(shape, logits.row(r), bias, &ids_[std::size_t{r} * shape.top_k],
              &weights_[std::size_t{r} * shape.top_k]);
    group_pairs(shape, experts, position);
    for (std::uint32_t r = 0; r < n_rows; ++r) {
        k_->permute_int4(x.row(r), hidden_, row(x_, r, padded_hidden_));
        for (std::uint32_t i = r * shape.top_k; i < (r + 1) * shape.top_k; ++i) {
            if (pair_of_[i] == kElsewhere) continue;
            natural_in_[pair_of_[i]] = x.row(r);
            permuted_in_[pair_of_[i]] = row(x_, r, padded_hidden_);
        }
    }
    // All experts of a rank have the same shape.
    const std::uint32_t width = groups_.empty() ? 0 : experts[groups_[0].expert].gate.rows;
    const std::size_t up_tasks = n_tasks(width), down_tasks = n_tasks(hidden_);
    pool_->run(groups_.size() * up_tasks, [&](std::size_t task, unsigned) {
        const Group &group = groups_[task / up_tasks];
        gate_up(experts[group.expert], group,
                static_cast<std::uint32_t>(task % up_tasks) * kTaskRows);
    });
    pool_->run(groups_.size() * down_tasks, [&](std::size_t task, unsigned) {
        const Group &group = groups_[task / down_tasks];
        const Matrix &w = experts[group.expert].down;
        const auto begin = static_cast<std::uint32_t>(task % down_tasks) * kTaskRows;
        const auto &in = w.type == WeightType::int4 ? permuted_act_ : natural_act_;
        k_->linear(w, begin, std::min(begin + kTaskRows, hidden_), in.data() + group.first, group.n,
                   down_out_.data() + group.first);
    });
    pool_->run(n_rows, [&](std::size_t r, unsigned) {
        float *out = y.row(r);
        for (std::size_t i = r * shape.top_k; i < (r + 1) * shape.top_k; ++i)
            if (pair_of_[i] != kElsewhere)
                k_->add_scaled(out, weights_[i], down_out_[pair_of_[i]], hidden_);
    });
}

}  // namespace kimi
