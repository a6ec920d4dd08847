// What a device can do: the fused operations of the forward passes, one call each.
//
// A device owns its memory. Buffers are [rows, width] activations, row-major; what a row holds
// (fp32 on the CPU) is the device's choice. All memory is reserved before the first pass; the
// operations allocate nothing and run in call order.
//
// Where a model is spread over ranks, each has a device with its shards of weights and KV, and all
// make the same calls; those that combine what the ranks have say so. A failure on one rank ends
// such a call on the others with KIMI_DEVICE_LOST.
//
// What changes from pass to pass - tokens, positions, places in the KV - is given to begin(); the
// operations behind it are about those rows and differ between passes in nothing else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/kv_memory.h"
#include "backend/matrix.h"
#include "backend/step_plan.h"
#include "backend/step_recorder.h"

namespace kimi {

enum class KvType : std::uint8_t { bf16, fp8, f32 };

// Activations in device memory.
struct Buffer {
    float *data = nullptr;
    std::uint32_t width = 0;  // elements from one row to the next

    Buffer columns(std::uint32_t begin) const { return {data + begin, width}; }
    float *row(std::size_t r) const { return data + r * width; }
};

// One product of a group that shares its pass over the rows: out[:, 0..w.rows) = in[:, 0..w.cols)
// W^T.
struct LinearJob {
    const Matrix *weight;
    Buffer in, out;
    // Rows of the whole weight where all ranks want all outputs, 0 otherwise: rank r computes the
    // columns [r * w.rows, (r + 1) * w.rows) of out and gets those of the others, unless its weight
    // is the whole.
    std::uint32_t whole = 0;
    bool rounded = false;  // only products read out: a device may keep it as bf16
};

inline constexpr std::uint32_t kFp8Group = 128;  // latents that share a scale

// The latent KV cache of all layers: a page holds 64 tokens of every layer, of which a device has
// all or, where attention is split over the context, the shard-th of n_shards equal parts. So every
// rank has the same part of any context, whatever pages it lies in.
struct KvShape {
    KvType type = KvType::bf16;
    std::uint32_t n_layers = 0, n_pages = 0;
    std::uint32_t kv_rank = 0, rope_dim = 0;
    std::uint32_t n_shards = 1, shard = 0;  // n_shards divides 64

    std::size_t token_bytes() const {  // of one token in one layer
        const std::size_t n = kv_rank + rope_dim;
        switch (type) {
            case KvType::bf16:
                return 2 * n;
            case KvType::fp8:
                return kv_rank + kv_rank / kFp8Group * sizeof(float) + 2 * rope_dim;
            case KvType::f32:
                return 4 * n;
        }
        return 0;
    }
    // What a device holds of a page: its tokens, and their bytes in one layer.
    std::uint32_t page_tokens() const { return kPageTokens / n_shards; }
    std::size_t page_bytes() const { return token_bytes() * page_tokens(); }
    // The shard that holds a position of a sequence.
    std::uint32_t shard_of(std::uint32_t position) const {
        return position % kPageTokens / page_tokens();
    }
    // How many of the first n positions of a sequence a device holds.
    std::uint32_t held(std::uint32_t n) const {
        const std::uint32_t in_page = n % kPageTokens, begin = shard * page_tokens();
        const std::uint32_t of_page = in_page > begin ? in_page - begin : 0;
        return n / kPageTokens * page_tokens() + std::min(of_page, page_tokens());
    }
};

// Multi-head latent attention of one layer. H heads of the rank, per head nope | rope query and v
// value dims.
struct MlaShape {
    std::uint32_t n_heads = 0, nope_dim = 0, rope_dim = 0, v_dim = 0, kv_rank = 0;
    float scale = 0;
};

struct MlaWeights {
    Vector kv_norm;
    Matrix kv_b;  // [heads * (nope + v), kv_rank], bf16: per head W_UK then W_UV
    float norm_eps = 0;
};

inline constexpr std::uint32_t kMaxTopK = 64;

// Routing: the top_k experts with the largest sigmoid(logit) + bias, lower index first on ties.
struct RouterShape {
    std::uint32_t n_experts = 0, top_k = 0;
    bool normalize = true;
    float scale = 1;
};

// A rank's share of an expert: the whole or a slice of its inner width. Of an expert with copies
// this rank has number `copy`, which computes the rows whose position % n_copies is copy; 0 copies:
// other ranks have it.
struct Expert {
    Matrix gate, up, down;
    std::uint32_t n_copies = 1, copy = 0;
};

// Grouped-query attention of the drafter, and its KV cache. A rank has n_heads query heads and the
// KV heads from first_kv_head on that they read. Layers are counted among their kind:
// full layers keep every token in a twin of the target's page, sliding ones the last ring_slots
// tokens of a sequence in its ring, at position % ring_slots.
struct DraftShape {
    std::uint32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
    std::uint32_t n_full = 0, n_sliding = 0;
    std::uint32_t window = 0;  // of sliding layers: position q sees p iff q - p < window
    std::uint32_t ring_slots = 0, n_rings = 0;
    std::uint32_t first_kv_head = 0, whole_kv_heads = 0;  // of all ranks together
    std::uint32_t block_size = 0;                         // rows of a block

    std::uint32_t kv_dim() const { return n_kv_heads * head_dim; }
};

// One layer of it.
struct DraftLayerRef {
    bool sliding = false;
    std::uint32_t index = 0;  // among the layers of its kind
};

// Per-head norms of queries and keys.
struct DraftNorms {
    Vector q, k;
    float eps = 0;
};

// The rows [first_row, first_row + n_rows) of one sequence, at consecutive positions from
// first_position on.
struct DraftSequence {
    std::uint32_t first_row = 0, n_rows = 0, first_position = 0;
    std::span<const std::uint32_t> pages;
    std::uint32_t ring = 0;
    // Context tokens whose KV is written: from here to first_position, in full layers and in the
    // ring.
    std::uint32_t full_begin = 0, ring_begin = 0;
};

// A pass of the drafter: blocks, or committed tokens whose context is written.
struct DraftPlan {
    std::span<const std::int32_t> token;      // [rows] of blocks; none for context
    std::span<const std::uint32_t> position;  // [rows]
    std::span<const DraftSequence> sequences;
    std::span<const std::uint32_t> picked;  // rows that gather() takes
};

// Rows that an operation is for: those of the pass, or those that gather() took.
enum class Rows : std::uint8_t { all, picked };

// Passes that a device may keep as graphs, by their rows and sessions: others round up, and the
// largest run by themselves. Ascending; empty: none.
struct GraphBuckets {
    std::vector<std::uint32_t> widths, sessions;
    std::uint64_t memory_bytes = 0;  // of a device, that they take at most
};

// What the operations will be called with at most.
struct DeviceLimits {
    std::uint32_t rows = 0;   // of one pass
    std::uint32_t width = 0;  // inputs of a linear layer
    std::uint32_t top_k = 0, n_experts = 0, expert_width = 0, hidden = 0;
    std::uint32_t context = 0;  // tokens of a sequence
    std::uint32_t vocab = 0;    // of all ranks
    MlaShape mla;
    KvShape kv;
    DraftShape draft;  // no heads: no drafter
    GraphBuckets graphs;
};

class WholeSteps;

class Device : public KvMemory {
  public:
    // The operations add their bytes and times to its step.
    StepRecorder &recorder() { return recorder_; }

    // Steps without the host, after reserve(); nullptr: the device has none.
    virtual WholeSteps *whole_steps() { return nullptr; }

    // Bring weights to where the device computes, before reserve(), and let the views refer to
    // that. A host that computes has nothing to do. Throw KIMI_DEVICE_OUT_OF_MEMORY, or
    // KIMI_UNSUPPORTED where the device cannot compute with a weight's type or shape.
    virtual void load(Matrix &) {}
    virtual void load(Vector &) {}
    virtual void load(std::shared_ptr<const float[]> & /*values*/, std::uint32_t /*n*/) {}
    virtual void load(MlaWeights &, const MlaShape &) {}
    virtual void load(std::span<Expert> /*of a layer*/) {}

    // Activations for `rows` rows; freed with the device. Throws KIMI_OUT_OF_MEMORY.
    virtual Buffer alloc(std::uint32_t rows, std::uint32_t width) = 0;
    // Reserves the KV cache and the workspaces of all operations within these limits.
    virtual void reserve(const DeviceLimits &limits) = 0;
    // After reserve() of all ranks, on all of them at once: makes ready what they do together.
    virtual void connect() {}

    // The pass that follows; what the plan refers to stays until the next one. gather() takes the
    // rows plan.logit_row or plan.picked.
    virtual void begin(const StepPlan &plan) = 0;
    virtual void begin(const DraftPlan &plan) = 0;
    // All operations of the pass but top_k() and read() have been called.
    virtual void end() {}

    // x[i] = row token[i] of a table over all ranks, each of which has table.rows rows of it.
    virtual void embed(const Matrix &table, Buffer x) = 0;
    // y = x / sqrt(mean(x^2) + eps) * w over w.n columns; y may be x.
    virtual void rms_norm(Buffer x, const Vector &w, float eps, Rows rows, Buffer y) = 0;
    // x += the sum of y over the ranks, in their order, over `width` columns, a multiple of 16;
    // then a = norm(x) as in rms_norm, unless w has no elements. y is used up.
    virtual void add_norm(Buffer x, Buffer y, std::uint32_t width, const Vector &w, float eps,
                          Buffer a) = 0;
    virtual void linear(std::span<const LinearJob> jobs, Rows rows) = 0;
    // gate = silu(gate) * up over `width` columns
    virtual void swiglu(Buffer gate, Buffer up, std::uint32_t width) = 0;

    // table[i] = cos then sin, times amplitude, of position[i] * inv_freq[j], which load() has
    // brought to the device: the angle is rounded
    // to fp32, then evaluated accurately (it reaches 262143 rad).
    virtual void rope(std::span<const float> inv_freq, float amplitude, Buffer table) = 0;
    // Normalises and rotates the new latents, which are the same on all ranks, and writes them to
    // their slots: kv [rows, kv_rank + rope]. Then absorbed attention over the pages: q [rows,
    // heads * (nope + rope)] -> out [rows, heads * v]. Where the KV is in shards, ranks attend with
    // all heads to what they hold, and partial results are merged by log-sum-exp in the order of
    // the ranks.
    virtual void mla(std::uint32_t layer, const MlaShape &shape, const MlaWeights &w, Buffer q,
                     Buffer kv, Buffer rope, Buffer out) = 0;

    // y [rows, hidden] += sum over the chosen experts that this rank has of weight * expert(x).
    // logits [rows, n_experts].
    virtual void experts(const RouterShape &shape, Buffer logits, const float *bias,
                         std::span<const Expert> experts, Buffer x, Buffer y) = 0;

    // Writes the drafter's context: k and v [rows, kv_heads * head_dim] of committed tokens. Keys
    // are normalised and rotated (half-split) first.
    virtual void draft_write(DraftLayerRef layer, const DraftNorms &norms, Buffer k, Buffer v,
                             Buffer rope) = 0;
    // Attention of blocks: the rows of a sequence see each other both ways and the written context
    // before them, in sliding layers within the window. q [rows, heads * head_dim] and k are
    // normalised and rotated in place first.
    virtual void draft_attend(DraftLayerRef layer, const DraftNorms &norms, Buffer q, Buffer k,
                              Buffer v, Buffer rope, Buffer out) = 0;
    // The k best tokens of each picked row by logit, lower id first on ties, and their log-softmax,
    // [rows, k], on all ranks. Rank r has the logits of the tokens [r * vocab, (r + 1) * vocab).
    virtual void top_k(Buffer logits, std::uint32_t vocab, std::uint32_t k, std::int32_t *tokens,
                       double *log_probability) = 0;

    // dst[i] = src[i] over `width` columns
    virtual void copy(Buffer src, std::uint32_t width, Buffer dst) = 0;
    // dst[i] = src[picked[i]] over `width` columns
    virtual void gather(Buffer src, std::uint32_t width, Buffer dst) = 0;
    // The target's KV of one slot in all layers, where the device holds it: token_bytes() each.
    virtual void read_slot(std::uint32_t page, std::uint32_t offset, std::byte *out) = 0;
    virtual void write_slot(std::uint32_t page, std::uint32_t offset, const std::byte *in) = 0;

    // Host view of a row of fp32 values, valid until the next operation.
    virtual std::span<const float> read(Buffer buffer, std::uint32_t row, std::uint32_t width) = 0;

  private:
    StepRecorder recorder_;
};

}  // namespace kimi
