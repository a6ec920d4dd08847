#include "backend/cpu/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/cpu/draft_attention.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/moe.h"
#include "backend/cpu/top_k.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/thread_pool.h"

namespace kimi {
namespace {

// Output rows that one task of a linear layer computes.
constexpr std::uint32_t kTaskRows = 32;
// Rows below which an elementwise operation is not worth waking the threads for.
constexpr std::uint32_t kSerialRows = 4;

// Rotates the pairs (x[2i], x[2i+1]); table holds the cosines, then the sines.
void rotate_pairs(float *x, std::uint32_t dim, const float *table) {
    for (std::uint32_t i = 0; i < dim / 2; ++i) {
        const float a = x[2 * i], b = x[2 * i + 1];
        const float cos = table[i], sin = table[dim / 2 + i];
        x[2 * i] = a * cos - b * sin;
        x[2 * i + 1] = b * cos + a * sin;
    }
}

class CpuDevice final : public Device {
  public:
    CpuDevice(CpuIsa isa, unsigned n_threads, std::shared_ptr<Communicator> ranks,
              std::uint32_t rank, const HostHeap &heap)
        : k_(cpu_kernels(isa)),
          pool_(n_threads),
          ranks_(std::move(ranks)),
          rank_(rank),
          heap_(heap) {}

    Buffer alloc(std::uint32_t rows, std::uint32_t width) override {
        memory_.emplace_back(heap_, std::size_t{rows} * width * sizeof(float), "activations");
        return {memory_.back().floats(), width};
    }

    void reserve(const DeviceLimits &limits) override {
        kv_ = CpuKvCache(k_, limits.kv, heap_);
        pass_kv_ = CpuKvCache(k_, of_pass(limits.kv, limits.rows), heap_);
        slot_.resize(limits.kv.n_layers * limits.kv.token_bytes());
        attention_ = CpuAttention(k_, pool_, limits, heap_);
        moe_ = CpuMoe(k_, pool_, limits, heap_);
        draft_ = CpuDraftAttention(k_, pool_, limits, heap_);
        permuted_ = alloc(limits.rows, (limits.width + kInt4Block - 1) / kInt4Block * kInt4Block);
        const std::uint32_t latent = limits.mla.kv_rank + limits.mla.rope_dim;
        const std::uint32_t attended = limits.mla.n_heads * limits.kv.n_shards;
        queries_ = alloc(limits.rows, attended * latent);
        partial_.out = alloc(limits.rows, attended * limits.mla.kv_rank).data;
        partial_.max = alloc(limits.rows, attended).data;
        partial_.sum = alloc(limits.rows, attended).data;
        top_k_.resize(limits.rows);
        if (ranks_->n_ranks() > 1)
            for (Buffer &sent : sent_)
                sent = alloc(limits.rows, std::max(limits.width, queries_.width));
        in_.resize(limits.rows);
        out_.resize(std::size_t{limits.rows} * limits.mla.n_heads);
    }

    void begin(const StepPlan &plan) override {
        plan_ = plan;
        tokens_ = plan.token, positions_ = plan.position, picked_ = plan.logit_row;
    }
    void begin(const DraftPlan &plan) override {
        sequences_ = plan.sequences;
        tokens_ = plan.token, positions_ = plan.position, picked_ = plan.picked;
    }

    void embed(const Matrix &table, Buffer x) override {
        const std::uint32_t first = rank_ * table.rows;
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            const std::uint32_t row = static_cast<std::uint32_t>(tokens_[i]) - first;
            if (row < table.rows) {
                step().weight_bytes += table.slice_rows(0, 1).bytes();
                k_.widen(table.row(row), table.cols, x.row(i));
            } else {
                std::fill_n(x.row(i), table.cols, 0.0f);
            }
        }
        all_reduce(x, table.cols);
    }

    void rms_norm(Buffer x, const Vector &w, float eps, Rows rows, Buffer y) override {
        each_row(count(rows),
                 [&](std::size_t r) { k_.rms_norm(x.row(r), w.data, w.n, eps, y.row(r)); });
    }

    void add_norm(Buffer x, Buffer y, std::uint32_t width, const Vector &w, float eps,
                  Buffer a) override {
        all_reduce(y, width);
        each_row(n_rows(), [&](std::size_t r) {
            k_.add(x.row(r), y.row(r), width);
            if (w.n > 0) k_.rms_norm(x.row(r), w.data, w.n, eps, a.row(r));
        });
    }

    void linear(std::span<const LinearJob> jobs, Rows rows) override {
        const std::uint32_t n_rows = count(rows);
        for (const LinearJob &job : jobs) {
            const Matrix &w = *job.weight;
            step().weight_bytes += w.bytes();
            const Buffer out = job.whole > w.rows ? job.out.columns(rank_ * w.rows) : job.out;
            point_inputs(w, job.in, n_rows);
            for (std::uint32_t r = 0; r < n_rows; ++r) out_[r] = out.row(r);
            pool_.run((w.rows + kTaskRows - 1) / kTaskRows, [&](std::size_t task, unsigned) {
                const auto begin = static_cast<std::uint32_t>(task) * kTaskRows;
                k_.linear(w, begin, std::min(begin + kTaskRows, w.rows), in_.data(), n_rows,
                          out_.data());
            });
        }
        for (const LinearJob &job : jobs)
            if (job.whole > job.weight->rows) all_gather(job.out, job.weight->rows, n_rows);
    }

    void swiglu(Buffer gate, Buffer up, std::uint32_t width) override {
        each_row(n_rows(), [&](std::size_t r) { k_.swiglu(gate.row(r), up.row(r), width); });
    }

    void rope(std::span<const float> inv_freq, float amplitude, Buffer table) override {
        each_row(n_rows(), [&](std::size_t r) {
            float *row = table.row(r);
            for (std::size_t i = 0; i < inv_freq.size(); ++i) {
                const float angle = static_cast<float>(positions_[r]) * inv_freq[i];
                row[i] = static_cast<float>(std::cos(double{angle})) * amplitude;
                row[inv_freq.size() + i] = static_cast<float>(std::sin(double{angle})) * amplitude;
            }
        });
    }

    void mla(std::uint32_t layer, const MlaShape &shape, const MlaWeights &w, Buffer q, Buffer kv,
             Buffer rope, Buffer out) override {
        const RecordedTime time(step().attention);
        write_latents(layer, shape, w, kv, rope);
        const std::int64_t waited_before = step().collectives;
        step().weight_bytes += w.kv_b.bytes();
        for (const PlanSequence &sequence : plan_.sequences) {
            const std::uint32_t last = plan_.slot[sequence.first_row + sequence.n_rows - 1];
            step().kv_bytes += kv_.shape().held(last + 1) * kv_.shape().token_bytes();
        }
        const std::uint32_t n = n_rows(), own = kv_.shape().shard * shape.n_heads;
        const bool sharded = kv_.shape().n_shards > 1;
        absorb_queries(shape, w, n, own, q, rope);
        if (sharded) all_gather(queries_, shape.n_heads * (shape.kv_rank + shape.rope_dim), n);
        attention_.run(layer, kv_, pass_kv_, shape, plan_, queries_.data, partial_);
        if (sharded) {
            const std::size_t bytes = std::size_t{n} * shape.n_heads * (shape.kv_rank + 2) * 4;
            exchange(&partial_, bytes, [&](std::span<void *const> all) {
                const CpuAttention::Partial *parts[kMaxRanks];
                for (std::size_t i = 0; i < all.size(); ++i)
                    parts[i] = static_cast<const CpuAttention::Partial *>(all[i]);
                attention_.combine({parts, all.size()}, own, shape.n_heads, n, partial_);
            });
        } else {
            attention_.combine({{&partial_}}, own, shape.n_heads, n, partial_);
        }
        expand_values(shape, w, n, own, out);
        step().attention -= step().collectives - waited_before;
    }

    void experts(const RouterShape &shape, Buffer logits, const float *bias,
                 std::span<const Expert> experts, Buffer x, Buffer y) override {
        const RecordedTime time(step().experts);
        moe_.run(shape, logits, bias, experts, positions_, x, y);
        for (const CpuMoe::Group &group : moe_.groups()) {
            const Expert &expert = experts[group.expert];
            step().weight_bytes += expert.gate.bytes() + expert.up.bytes() + expert.down.bytes();
            ++step().experts_hit;
        }
    }

    void draft_write(DraftLayerRef layer, const DraftNorms &norms, Buffer k, Buffer v,
                     Buffer rope) override {
        const RecordedTime time(step().attention);
        draft_.write(layer, norms, sequences_, k, v, rope);
    }

    void draft_attend(DraftLayerRef layer, const DraftNorms &norms, Buffer q, Buffer k, Buffer v,
                      Buffer rope, Buffer out) override {
        const RecordedTime time(step().attention);
        step().kv_bytes += draft_.context_bytes(layer, sequences_);
        draft_.attend(layer, norms, sequences_, q, k, v, rope, out);
    }

    void top_k(Buffer logits, std::uint32_t vocab, std::uint32_t k, std::int32_t *tokens,
               double *log_probability) override {
        const std::uint32_t n_rows = count(Rows::picked);
        pool_.run(n_rows, [&](std::size_t r, unsigned) {
            find_top_k({logits.row(r), vocab}, rank_ * vocab, k, top_k_[r]);
        });
        exchange(top_k_.data(), n_rows * sizeof(TopK), [&](std::span<void *const> all) {
            const TopK *of_row[kMaxRanks];
            for (std::size_t r = 0; r < n_rows; ++r) {
                for (std::size_t i = 0; i < all.size(); ++i)
                    of_row[i] = static_cast<const TopK *>(all[i]) + r;
                merge_top_k({of_row, all.size()}, k, tokens + r * k, log_probability + r * k);
            }
        });
    }

    void copy(Buffer src, std::uint32_t width, Buffer dst) override {
        copy(src, width, n_rows(), dst);
    }

    void gather(Buffer src, std::uint32_t width, Buffer dst) override {
        for (std::size_t i = 0; i < picked_.size(); ++i)
            std::memcpy(dst.row(i), src.row(picked_[i]), width * sizeof(float));
    }

    void move_slots(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> from,
                    std::span<const std::uint32_t> to) override {
        for (std::size_t i = 0; i < from.size(); ++i) {
            read_slot(pages[from[i] / kPageTokens], from[i] % kPageTokens, slot_.data());
            write_slot(pages[to[i] / kPageTokens], to[i] % kPageTokens, slot_.data());
        }
    }
    void read_slot(std::uint32_t page, std::uint32_t offset, std::byte *out) override {
        KIMI_CHECK(holds(offset));
        kv_.read(page, held_offset(offset), out);
    }
    void write_slot(std::uint32_t page, std::uint32_t offset, const std::byte *in) override {
        KIMI_CHECK(holds(offset));
        kv_.write(page, held_offset(offset), in);
    }

    std::size_t page_bytes() const override {
        return kPageTokens * (kv_.shape().n_layers * kv_.shape().token_bytes() +
                              draft_.n_full() * draft_.whole_token_bytes());
    }
    std::size_t ring_bytes() const override {
        return draft_.n_sliding() * draft_.ring_slots() * draft_.whole_token_bytes();
    }

    void copy_page(std::uint32_t from, std::uint32_t to) override {
        for (std::uint32_t i = 0; i < kv_.shape().n_layers; ++i)
            std::memcpy(kv_.page(i, to), kv_.page(i, from), kv_.shape().page_bytes());
        for (std::uint32_t i = 0; i < draft_.n_full(); ++i)
            std::memcpy(draft_.page(i, to), draft_.page(i, from), draft_.page_bytes());
    }
    void copy_ring(std::uint32_t from, std::uint32_t to) override {
        for (std::uint32_t i = 0; i < draft_.n_sliding(); ++i)
            std::memcpy(draft_.ring(i, to), draft_.ring(i, from), draft_.ring_bytes());
    }
    void read_page(std::uint32_t page, std::byte *out) override {
        page_pieces(page, [&](const std::byte *piece, std::size_t at, std::size_t n) {
            std::memcpy(out + at, piece, n);
        });
    }
    void write_page(std::uint32_t page, const std::byte *in) override {
        page_pieces(page, [&](std::byte *piece, std::size_t at, std::size_t n) {
            std::memcpy(piece, in + at, n);
        });
    }
    void read_ring(std::uint32_t ring, std::byte *out) override {
        ring_pieces(ring, [&](const std::byte *piece, std::size_t at, std::size_t n) {
            std::memcpy(out + at, piece, n);
        });
    }
    void write_ring(std::uint32_t ring, const std::byte *in) override {
        ring_pieces(ring, [&](std::byte *piece, std::size_t at, std::size_t n) {
            std::memcpy(piece, in + at, n);
        });
    }

    std::span<const float> read(Buffer buffer, std::uint32_t row, std::uint32_t width) override {
        return {buffer.row(row), width};
    }

  private:
    StepRecord &step() { return recorder().step(); }
    std::uint32_t n_rows() const { return static_cast<std::uint32_t>(positions_.size()); }
    std::uint32_t count(Rows rows) const {
        return rows == Rows::all ? n_rows() : static_cast<std::uint32_t>(picked_.size());
    }

    static void copy(Buffer src, std::uint32_t width, std::uint32_t n_rows, Buffer dst) {
        for (std::size_t r = 0; r < n_rows; ++r)
            std::memcpy(dst.row(r), src.row(r), width * sizeof(float));
    }

    // A cache of one layer for the rows of a pass, all of which every rank has.
    static KvShape of_pass(KvShape shape, std::uint32_t rows) {
        shape.n_layers = 1;
        shape.n_pages = (rows + kPageTokens - 1) / kPageTokens;
        shape.n_shards = 1;
        shape.shard = 0;
        return shape;
    }
    bool holds(std::uint32_t slot) const { return kv_.shape().shard_of(slot) == kv_.shape().shard; }
    std::uint32_t held_offset(std::uint32_t slot) const { return slot % kv_.shape().page_tokens(); }

    // Calls f(piece, place, bytes) for what this device has of a page, with its place in the byte
    // string of all devices.
    template <typename F>
    void page_pieces(std::uint32_t page, const F &f) {
        std::size_t at = 0;
        for (std::uint32_t i = 0; i < kv_.shape().n_layers; ++i) {
            std::byte *piece = kv_.page(i, page);
            for (const std::size_t token : kv_.planes().bytes) {
                const std::size_t n = token * kv_.shape().page_tokens();
                f(piece, at + kv_.shape().shard * n, n);
                piece += n;
                at += token * kPageTokens;
            }
        }
        for (std::uint32_t i = 0; i < draft_.n_full(); ++i) {
            draft_.each_piece(draft_.page(i, page), kPageTokens, at, f);
            at += kPageTokens * draft_.whole_token_bytes();
        }
    }
    template <typename F>
    void ring_pieces(std::uint32_t ring, const F &f) {
        for (std::uint32_t i = 0; i < draft_.n_sliding(); ++i)
            draft_.each_piece(draft_.ring(i, ring), draft_.ring_slots(),
                              i * draft_.ring_slots() * draft_.whole_token_bytes(), f);
    }

    // Meets the other ranks, which get `bytes` of what each shows.
    template <typename Read>
    void exchange(void *mine, std::size_t bytes, const Read &read) {
        const std::size_t n_others = ranks_->n_ranks() - 1;
        if (n_others == 0) return ranks_->exchange(rank_, mine, read);
        const RecordedTime time(step().collectives);
        step().sent_bytes += n_others * bytes;
        step().received_bytes += n_others * bytes;
        ranks_->exchange(rank_, mine, read);
    }

    // Sums x over the ranks. Every rank adds all up: that is little beside the products, and nobody
    // waits for others' sums.
    void all_reduce(Buffer x, std::uint32_t width) {
        if (ranks_->n_ranks() == 1) return;
        const std::uint32_t n = n_rows();
        exchange(send(x, width, n), std::size_t{n} * width * sizeof(float),
                 [&](std::span<void *const> all) {
                     copy({static_cast<float *>(all[0]), width}, width, n, x);
                     for (std::size_t from = 1; from < all.size(); ++from)
                         each_row(n, [&](std::size_t r) {
                             k_.add(x.row(r), static_cast<float *>(all[from]) + r * width, width);
                         });
                 });
    }

    // A dense copy that stays when x changes: the last two are kept.
    float *send(Buffer x, std::uint32_t width, std::uint32_t n_rows) {
        std::swap(sent_[0], sent_[1]);
        copy(x, width, n_rows, {sent_[0].data, width});
        return sent_[0].data;
    }

    // The columns [r * part, (r + 1) * part) of x are rank r's; afterwards all ranks have all.
    void all_gather(Buffer x, std::uint32_t part, std::uint32_t n_rows) {
        float *const mine = send(x.columns(rank_ * part), part, n_rows);
        const std::size_t bytes = std::size_t{n_rows} * part * sizeof(float);
        exchange(mine, bytes, [&](std::span<void *const> all) {
            for (std::uint32_t from = 0; from < all.size(); ++from)
                if (from != rank_)
                    copy({static_cast<float *>(all[from]), part}, part, n_rows,
                         x.columns(from * part));
        });
    }

    template <typename Row>
    void each_row(std::uint32_t n_rows, const Row &row) {
        if (n_rows < kSerialRows) {
            for (std::uint32_t r = 0; r < n_rows; ++r) row(r);
        } else {
            pool_.run(n_rows, [&](std::size_t r, unsigned) { row(r); });
        }
    }

    // The inputs in the order that the weight's type wants.
    void point_inputs(const Matrix &w, Buffer in, std::uint32_t n_rows) {
        for (std::uint32_t r = 0; r < n_rows; ++r) {
            in_[r] = in.row(r);
            if (w.type != WeightType::int4) continue;
            k_.permute_int4(in.row(r), w.cols, permuted_.row(r));
            in_[r] = permuted_.row(r);
        }
    }

    // Row chunks of one head are the tasks of the two products with kv_b.
    template <typename Task>
    void each_head(const MlaShape &shape, std::uint32_t n_rows, const Task &task) {
        constexpr std::uint32_t kChunk = 8;
        const std::uint32_t chunks = (n_rows + kChunk - 1) / kChunk;
        pool_.run(std::size_t{shape.n_heads} * chunks, [&](std::size_t i, unsigned) {
            const auto head = static_cast<std::uint32_t>(i / chunks);
            const auto first = static_cast<std::uint32_t>(i % chunks) * kChunk;
            task(head, first, std::min(kChunk, n_rows - first));
        });
    }

    void write_latents(std::uint32_t layer, const MlaShape &shape, const MlaWeights &w, Buffer kv,
                       Buffer rope) {
        for (const PlanSequence &sequence : plan_.sequences)
            for (std::uint32_t r = sequence.first_row; r < sequence.first_row + sequence.n_rows;
                 ++r) {
                float *row = kv.row(r);
                k_.rms_norm(row, w.kv_norm.data, shape.kv_rank, w.norm_eps, row);
                rotate_pairs(row + shape.kv_rank, shape.rope_dim, rope.row(r));
                pass_kv_.store(0, r / kPageTokens, r % kPageTokens, row);
                const std::uint32_t slot = plan_.slot[r];
                if (holds(slot))
                    kv_.store(layer, sequence.pages[slot / kPageTokens], held_offset(slot), row);
            }
    }

    // queries_[r][own + h] = (q_nope W_UK[h], rotated q_rope)
    void absorb_queries(const MlaShape &s, const MlaWeights &w, std::uint32_t n_rows,
                        std::uint32_t own, Buffer q, Buffer rope) {
        const std::uint32_t q_dim = s.nope_dim + s.rope_dim, latent = s.kv_rank + s.rope_dim;
        each_head(s, n_rows, [&](std::uint32_t head, std::uint32_t first, std::uint32_t n) {
            const std::byte *w_uk = w.kv_b.row(std::size_t{head} * (s.nope_dim + s.v_dim));
            const float *in = q.row(first) + std::size_t{head} * q_dim;
            float *out = queries_.row(first) + std::size_t{own + head} * latent;
            k_.weighted_sum_bf16(in, q.width, n, w_uk, w.kv_b.row_bytes, s.nope_dim, s.kv_rank, out,
                                 queries_.width);
            for (std::uint32_t i = 0; i < n; ++i) {
                float *rotated = out + std::size_t{i} * queries_.width + s.kv_rank;
                std::memcpy(rotated, in + std::size_t{i} * q.width + s.nope_dim,
                            s.rope_dim * sizeof(float));
                rotate_pairs(rotated, s.rope_dim, rope.row(first + i));
            }
        });
    }

    // out[r][h] = W_UV[h] latents[r][own + h]
    void expand_values(const MlaShape &s, const MlaWeights &w, std::uint32_t n_rows,
                       std::uint32_t own, Buffer out) {
        const Buffer latents{partial_.out, s.n_heads * kv_.shape().n_shards * s.kv_rank};
        each_head(s, n_rows, [&](std::uint32_t head, std::uint32_t first, std::uint32_t n) {
            const std::uint32_t v_row = head * (s.nope_dim + s.v_dim) + s.nope_dim;
            const Matrix w_uv = w.kv_b.slice_rows(v_row, s.v_dim);
            const float *in[8];
            float *to[8];
            for (std::uint32_t i = 0; i < n; ++i) {
                in[i] = latents.row(first + i) + std::size_t{own + head} * s.kv_rank;
                to[i] = out.row(first + i) + std::size_t{head} * s.v_dim;
            }
            k_.linear(w_uv, 0, s.v_dim, in, n, to);
        });
    }

    const CpuKernels &k_;
    ThreadPool pool_;
    std::shared_ptr<Communicator> ranks_;
    std::uint32_t rank_;
    HostHeap heap_;
    std::vector<HostMemory> memory_;
    StepPlan plan_;                             // of the pass: a target's,
    std::span<const DraftSequence> sequences_;  // a drafter's,
    std::span<const std::int32_t> tokens_;      // and any
    std::span<const std::uint32_t> positions_, picked_;
    CpuKvCache kv_;
    CpuKvCache pass_kv_;  // of the rows of a pass in the layer that was written last
    CpuAttention attention_;
    CpuMoe moe_;
    CpuDraftAttention draft_;
    std::vector<TopK> top_k_;        // [rows]
    Buffer permuted_;                // [rows, width] in int4 order
    Buffer queries_;                 // [rows, attended heads, kv_rank + rope]
    CpuAttention::Partial partial_;  // of [rows, attended heads]
    std::vector<const float *> in_;
    std::vector<float *> out_;
    std::vector<std::byte> slot_;  // that moves
    Buffer sent_[2];               // [rows, widest exchange] of several ranks
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(CpuIsa isa, unsigned n_threads) {
    return make_cpu_device(isa, n_threads, std::make_shared<Communicator>(1), 0);
}

std::unique_ptr<Device> make_cpu_device(CpuIsa isa, unsigned n_threads,
                                        std::shared_ptr<Communicator> ranks, std::uint32_t rank,
                                        const HostHeap &heap) {
    return std::make_unique<CpuDevice>(isa, n_threads, std::move(ranks), rank, heap);
}

}  // namespace kimi
