#include "placement/cost_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/device.h"
#include "base/error.h"

namespace kimi {
namespace {

constexpr double kActivationBytes = 2;     // on the link: bf16
constexpr std::uint64_t kTileTokens = 64;  // of the attention kernel

double read_ms(double bytes, const Rates &rates) {
    return bytes / rates.memory_gb_per_s * 1e-6;
}
double math_ms(double flops, double tflops) {
    return flops / tflops * 1e-9;
}

template <typename T>
T ceil_div(T a, T b) {
    return (a + b - 1) / b;
}

}  // namespace

double PerPart::sum() const {
    return std::accumulate(values_.begin(), values_.end(), 0.0);
}

std::string_view kv_format_name(KvFormat format) {
    constexpr std::string_view kNames[] = {"bf16", "f32", "fp8", "fp8_flat"};
    return kNames[static_cast<std::size_t>(format)];
}

KvFormat kv_format(Deployment::KvType type) {
    if (type == Deployment::KvType::f32) return KvFormat::f32;
    return type == Deployment::KvType::fp8 ? KvFormat::fp8 : KvFormat::bf16;
}

std::uint32_t kv_token_bytes(KvFormat format, const TargetDims &d) {
    if (format == KvFormat::fp8_flat) return d.latent_dim();
    constexpr KvType kTypes[] = {KvType::bf16, KvType::f32, KvType::fp8};
    KvShape shape;
    shape.type = kTypes[static_cast<std::size_t>(format)];
    shape.kv_rank = d.kv_rank, shape.rope_dim = d.rope_dim;
    return static_cast<std::uint32_t>(shape.token_bytes());
}

StepCost &StepCost::operator+=(const StepCost &o) {
    weights_ms += o.weights_ms, matmul_ms += o.matmul_ms;
    kv_ms += o.kv_ms, attention_ms += o.attention_ms;
    collectives_ms += o.collectives_ms, draft_ms += o.draft_ms;
    total_ms += o.total_ms;
    return *this;
}

std::uint32_t context_splits(std::uint64_t context, std::uint32_t multiprocessors) {
    const std::uint64_t tiles = std::max<std::uint64_t>(1, ceil_div(context, kTileTokens));
    return static_cast<std::uint32_t>(
        ceil_div(tiles, ceil_div<std::uint64_t>(tiles, multiprocessors)));
}

CostModel::CostModel(const ModelDims &dims, const Placement &placement, const Machine &machine,
                     KvFormat kv, Routing routing)
    : dims_(dims), placement_(placement), machine_(machine), kv_(kv), routing_(std::move(routing)) {
    const double held_experts = placement.held_experts(dims.target);
    for (const PlacedWeight &w : place_weights(placement, dims)) {
        const double n = w.layers * (w.part == WeightPart::experts ? held_experts : 1);
        held_[w.part] += n * static_cast<double>(shard_bytes(w));
        elements_[w.part] += n * static_cast<double>(shard_elements(w));
    }
}

double CostModel::attended_share() const {
    return placement_.attention == AttentionSplit::context ? 1.0 / placement_.ranks : 1;
}

DeviceMemory CostModel::memory(const WorkLimits &limits) const {
    const TargetDims &t = dims_.target;
    DeviceMemory out;
    out.drafter = static_cast<std::uint64_t>(held_[WeightPart::drafter]);
    out.weights = static_cast<std::uint64_t>(held_.sum()) - out.drafter;
    out.workspace = workspace_bytes(dims_, placement_, machine_.multiprocessors, limits);
    out.graphs = limits.graph_bytes;
    out.reserved = machine_.reserved_bytes;
    out.total = machine_.memory_bytes;
    out.token = static_cast<std::uint64_t>(t.n_layers * kv_token_bytes(kv_, t) * attended_share());
    if (dims_.drafter)
        out.token += dims_.drafter->n_full_layers * draft_token_bytes(*dims_.drafter, placement_);
    if (!out.fits()) return out;
    const std::uint64_t left = out.total - out.fixed();
    out.capacity_tokens = left / out.token / kPageTokens * kPageTokens;
    return out;
}

PerPart CostModel::read_bytes(std::uint32_t rows, double overlap) const {
    PerPart out = held_;
    out[WeightPart::embedding] = 0;  // a row per token
    out[WeightPart::drafter] = 0;
    const double distinct = routing_.distinct_experts(rows) * (rows > 1 ? overlap : 1);
    out[WeightPart::experts] *= distinct / placement_.expert_groups *
                                routing_.load(rows).distinct_ratio /
                                placement_.held_experts(dims_.target);
    return out;
}

std::uint32_t CostModel::all_reduces() const {
    return placement_.ranks > 1 ? 2 * dims_.target.n_layers : 0;
}

// Every rank gets the absorbed queries of the other ranks' heads and sends them their outputs over
// its part of the context.
double CostModel::context_exchange_us(const Rates &rates, double rows) const {
    const TargetDims &t = dims_.target;
    const ContextExchangeRate &r = rates.context_exchange;
    const double token_bytes = kActivationBytes * t.n_heads * (t.latent_dim() + t.kv_rank) *
                               (placement_.ranks - 1) / placement_.ranks;
    const double token_us = token_bytes / machine_.link_gb_per_s * 1e-3;
    return r.us + r.wire_factor * (rows - r.at_tokens) * token_us;
}

double CostModel::collectives_ms(const Rates &rates, double rows) const {
    const TargetDims &t = dims_.target;
    if (placement_.ranks == 1) return 0;
    const auto us = [&](double values, double bytes) {
        return all_reduce_us(machine_, rates, placement_.ranks, rows * values * bytes);
    };
    double sum = all_reduces() * us(t.hidden, kActivationBytes);
    // A gather is priced as a sum of the gathered size.
    const std::uint32_t latents =
        (placement_.split_q_a ? t.q_rank : 0) + (placement_.split_kv_a ? t.latent_dim() : 0);
    if (latents > 0) sum += t.n_layers * us(latents, kActivationBytes);
    if (placement_.split_router) sum += t.n_moe_layers() * us(t.n_experts, 4);
    if (placement_.attention == AttentionSplit::context)
        sum += t.n_layers * context_exchange_us(rates, rows);
    return sum * 1e-3;
}

double CostModel::matmul_flops(const Pass &p) const {
    const double expert = elements_[WeightPart::experts] / placement_.held_experts(dims_.target);
    const double pairs = double(p.rows) * dims_.target.top_k / placement_.expert_groups *
                         routing_.load(p.rows).pairs_ratio;
    double every_row = 0;
    for (const WeightPart part : {WeightPart::attention, WeightPart::latents, WeightPart::router,
                                  WeightPart::shared, WeightPart::dense})
        every_row += elements_[part];
    return 2 * (p.rows * every_row + p.logit_rows * elements_[WeightPart::head] + pairs * expert);
}

// Scores and outputs over the latents, or, where many rows share them, over keys and values that
// kv_b expands first: that is plain attention, which runs at the rate of products.
double CostModel::attention_ms(const Rates &rates, const Pass &p) const {
    const TargetDims &t = dims_.target;
    const double absorbed = p.pairs * (t.latent_dim() + t.kv_rank);
    const double expanded =
        p.pairs * (t.qk_dim() + t.v_dim) + p.kv_tokens * t.kv_rank * (t.nope_dim + t.v_dim);
    const double heads =
        double(t.n_layers) * placement_.attended_heads(dims_.target) * attended_share();
    return std::min(math_ms(2 * heads * absorbed, rates.attention_tflops),
                    math_ms(2 * heads * expanded, rates.matmul_tflops));
}

StepCost CostModel::cost(const Rates &rates, const Pass &p) const {
    const TargetDims &t = dims_.target;
    StepCost out;
    out.weights_ms = read_ms(read_bytes(p.rows, p.overlap).sum(), rates);
    out.matmul_ms = math_ms(matmul_flops(p), rates.matmul_tflops);
    out.kv_ms =
        read_ms(p.kv_tokens * attended_share() * t.n_layers * kv_token_bytes(kv_, t), rates);
    out.attention_ms = attention_ms(rates, p);
    out.collectives_ms = collectives_ms(rates, p.rows);
    out.total_ms = std::max(out.weights_ms, out.matmul_ms) + std::max(out.kv_ms, out.attention_ms) +
                   out.collectives_ms;
    return out;
}

StepCost CostModel::step(const Rates &rates, std::uint32_t rows, double context,
                         double overlap) const {
    return cost(rates, {rows, double(rows), context, rows * context, overlap});
}

StepCost CostModel::drafted_step(const Rates &rates, std::uint32_t rows, double context,
                                 double overlap) const {
    StepCost out = step(rates, rows, context, overlap);
    out.draft_ms = draft_ms(rates, context);
    out.total_ms += out.draft_ms;
    return out;
}

StepCost CostModel::prefill(const Rates &rates, std::uint64_t tokens,
                            std::uint32_t chunk_rows) const {
    StepCost out;
    for (std::uint64_t done = 0; done < tokens; done += chunk_rows) {
        const auto rows =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk_rows, tokens - done));
        const double before = static_cast<double>(done);
        out += cost(rates, {rows, 1, before + rows, rows * (before + (rows + 1.0) / 2)});
    }
    return out;
}

double CostModel::draft_ms(const Rates &rates, double context) const {
    if (!dims_.drafter) return 0;
    const DrafterDims &d = *dims_.drafter;
    const double kv_tokens =
        d.n_full_layers * context + d.n_sliding_layers * std::min(context, double(d.window));
    const double bytes =
        held_[WeightPart::drafter] + held_[WeightPart::head] +
        kv_tokens * static_cast<double>(draft_token_bytes(*dims_.drafter, placement_));
    // Two sums per layer, and the gather of fc's output.
    const double exchange_us = all_reduce_us(machine_, rates, placement_.ranks,
                                             d.block_size * dims_.target.hidden * kActivationBytes);
    return read_ms(bytes, rates) + (2 * d.n_layers() + 1) * exchange_us * 1e-3;
}

AttentionGrid CostModel::attention_grid(std::uint32_t rows, std::uint64_t context) const {
    const auto local =
        static_cast<std::uint64_t>(std::ceil(static_cast<double>(context) * attended_share()));
    AttentionGrid out;
    out.splits = context_splits(local, machine_.multiprocessors);
    out.tiles_per_split = static_cast<std::uint32_t>(
        ceil_div(ceil_div(local, kTileTokens), std::uint64_t{out.splits}));
    out.unfolded = unfolded_blocks(rows, placement_.attended_heads(dims_.target), out.splits);
    out.folded = folded_blocks(rows, placement_.attended_heads(dims_.target), out.splits);
    return out;
}

}  // namespace kimi
