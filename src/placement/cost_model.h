// What a placement costs: bytes on a device, and milliseconds of a step by part.
//
// Times are those of the busiest rank, and bounds: launch gaps, sampling and the exchanges of the
// embedding and of the sampler are left out. Under Machine::ideal no engine can be faster; under
// Machine::practical published kernels are assumed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "placement/expert_map.h"
#include "placement/machine.h"
#include "placement/placement.h"
#include "placement/routing.h"
#include "placement/workspace.h"

namespace kimi {

// fp8_flat: one scale per tensor and the rope part in fp8 too, as in published tables; only for
// comparison.
enum class KvFormat : std::uint8_t { bf16, f32, fp8, fp8_flat };
std::string_view kv_format_name(KvFormat format);
KvFormat kv_format(Deployment::KvType type);
// Of one token in one layer.
std::uint32_t kv_token_bytes(KvFormat format, const TargetDims &dims);

// A number for every part of the weights.
class PerPart {
  public:
    double &operator[](WeightPart part) { return values_[static_cast<std::size_t>(part)]; }
    double operator[](WeightPart part) const { return values_[static_cast<std::size_t>(part)]; }
    double sum() const;

  private:
    std::array<double, kWeightParts> values_{};
};

// Bytes on one device.
struct DeviceMemory {
    std::uint64_t weights = 0, drafter = 0;  // of the target, of the drafter
    std::uint64_t workspace = 0;             // activations, partial results, rings of the drafter
    std::uint64_t graphs = 0;                // of CUDA
    std::uint64_t reserved = 0, total = 0;   // of the machine
    std::uint64_t token = 0;                 // KV of one token of context, twin pages included
    std::uint64_t capacity_tokens = 0;       // whole pages that fit, all sessions together

    // All but the KV.
    std::uint64_t fixed() const { return weights + drafter + workspace + graphs + reserved; }
    bool fits() const { return fixed() <= total; }
};

struct StepCost {
    double weights_ms = 0, matmul_ms = 0;  // bytes and arithmetic of the linear layers
    double kv_ms = 0, attention_ms = 0;    // bytes and arithmetic of attention
    double collectives_ms = 0;
    double draft_ms = 0;
    double total_ms = 0;  // reading overlaps with arithmetic, nothing else does

    StepCost &operator+=(const StepCost &other);
};

// Query vectors, rows x heads, of one attention block: their fp32 outputs, 80 x 512 x 4 B, fill
// most of a multiprocessor's registers.
inline constexpr std::uint32_t kFoldedQueries = 80;

// Blocks of the attention kernel in one layer: one per row, head and split, or rows and heads
// folded.
inline std::uint32_t unfolded_blocks(std::uint32_t rows, std::uint32_t heads,
                                     std::uint32_t splits) {
    return rows * heads * splits;
}
inline std::uint32_t folded_blocks(std::uint32_t rows, std::uint32_t heads, std::uint32_t splits) {
    return (rows * heads + kFoldedQueries - 1) / kFoldedQueries * splits;
}
// Parts of the context: whole tiles of 64 tokens, as many as multiprocessors or fewer. Depends on
// the context alone, so that a row's bits do not depend on the other rows.
std::uint32_t context_splits(std::uint64_t context, std::uint32_t multiprocessors);

struct AttentionGrid {
    std::uint32_t splits = 1, tiles_per_split = 1;
    std::uint32_t unfolded = 1, folded = 1;  // blocks
};

class CostModel {
  public:
    // The placement has been checked; the routing is of its expert groups.
    CostModel(const ModelDims &dims, const Placement &placement, const Machine &machine,
              KvFormat kv, Routing routing);

    const Placement &placement() const { return placement_; }
    KvFormat kv_format() const { return kv_; }
    const Routing &routing() const { return routing_; }

    // Bytes of weights that a rank holds, by part.
    const PerPart &held_bytes() const { return held_; }
    DeviceMemory memory(const WorkLimits &limits) const;

    // Bytes of weights that the busiest rank reads, by part. overlap: distinct experts over what
    // independent tokens would touch.
    PerPart read_bytes(std::uint32_t rows, double overlap = 1) const;
    // All-reduces of a pass: behind attention and behind the experts of every layer.
    std::uint32_t all_reduces() const;
    // A pass over `rows` rows that each see `context` tokens: one token or a tree.
    StepCost step(const Rates &rates, std::uint32_t rows, double context, double overlap = 1) const;
    // The same behind a block of the drafter.
    StepCost drafted_step(const Rates &rates, std::uint32_t rows, double context,
                          double overlap = 1) const;
    // All chunks of a prompt together.
    StepCost prefill(const Rates &rates, std::uint64_t tokens, std::uint32_t chunk_rows) const;
    // One block of the drafter behind `context` tokens; 0 without a drafter.
    double draft_ms(const Rates &rates, double context) const;

    AttentionGrid attention_grid(std::uint32_t rows, std::uint64_t context) const;

  private:
    struct Pass {
        std::uint32_t rows;
        double logit_rows;
        double kv_tokens;  // whose KV is read
        double pairs;      // (row, token) that attention computes
        double overlap = 1;
    };
    StepCost cost(const Rates &rates, const Pass &pass) const;
    double matmul_flops(const Pass &pass) const;
    double attention_ms(const Rates &rates, const Pass &pass) const;
    double collectives_ms(const Rates &rates, double rows) const;
    double context_exchange_us(const Rates &rates, double rows) const;
    // Heads that one rank's attention computes, and its share of the context.
    double attended_share() const;

    ModelDims dims_;
    Placement placement_;
    Machine machine_;
    KvFormat kv_;
    Routing routing_;
    PerPart held_{};
    PerPart elements_{};  // of the weights that a rank holds
};

}  // namespace kimi
