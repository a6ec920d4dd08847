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
    CpuDevice(CpuIsa isa, unsigned n_threads) : k_(cpu_kernels(isa)), pool_(n_threads) {}

    Buffer alloc(std::uint32_t rows, std::uint32_t width) override {
        memory_.emplace_back(std::size_t{rows} * width * sizeof(float), "activations");
        return {memory_.back().floats(), width};
    }

    void reserve(const DeviceLimits &limits) override {
        kv_ = CpuKvCache(k_, limits.kv);
        attention_ = CpuAttention(k_, pool_, limits);
        moe_ = CpuMoe(k_, pool_, limits);
        draft_ = CpuDraftAttention(k_, pool_, limits);
        permuted_ = alloc(limits.rows, (limits.width + kInt4Block - 1) / kInt4Block * kInt4Block);
        const std::uint32_t latent = limits.mla.kv_rank + limits.mla.rope_dim;
        queries_ = alloc(limits.rows, limits.mla.n_heads * latent);
        latents_ = alloc(limits.rows, limits.mla.n_heads * limits.mla.kv_rank);
        in_.resize(limits.rows);
        out_.resize(std::size_t{limits.rows} * limits.mla.n_heads);
    }

    void embed(std::span<const std::int32_t> tokens, const Matrix &table, Buffer x) override {
        step().weight_bytes += tokens.size() * table.slice_rows(0, 1).bytes();
        for (std::size_t i = 0; i < tokens.size(); ++i)
            k_.widen(table.row(static_cast<std::size_t>(tokens[i])), table.cols, x.row(i));
    }

    void rms_norm(Buffer x, const Vector &w, float eps, std::uint32_t n_rows, Buffer y) override {
        each_row(n_rows, [&](std::size_t r) { k_.rms_norm(x.row(r), w.data, w.n, eps, y.row(r)); });
    }

    void linear(std::span<const LinearJob> jobs, std::uint32_t n_rows) override {
        for (const LinearJob &job : jobs) {
            const Matrix &w = *job.weight;
            step().weight_bytes += w.bytes();
            point_inputs(w, job.in, n_rows);
            for (std::uint32_t r = 0; r < n_rows; ++r) out_[r] = job.out.row(r);
            pool_.run((w.rows + kTaskRows - 1) / kTaskRows, [&](std::size_t task, unsigned) {
                const auto begin = static_cast<std::uint32_t>(task) * kTaskRows;
                k_.linear(w, begin, std::min(begin + kTaskRows, w.rows), in_.data(), n_rows,
                          out_.data());
            });
        }
    }

    void swiglu(Buffer gate, Buffer up, std::uint32_t width, std::uint32_t n_rows) override {
        each_row(n_rows, [&](std::size_t r) { k_.swiglu(gate.row(r), up.row(r), width); });
    }

    void add(Buffer x, Buffer y, std::uint32_t width, std::uint32_t n_rows) override {
        each_row(n_rows, [&](std::size_t r) { k_.add(x.row(r), y.row(r), width); });
    }

    void rope(std::span<const std::uint32_t> positions, std::span<const float> inv_freq,
              float amplitude, Buffer table) override {
        each_row(static_cast<std::uint32_t>(positions.size()), [&](std::size_t r) {
            float *row = table.row(r);
            for (std::size_t i = 0; i < inv_freq.size(); ++i) {
                const float angle = static_cast<float>(positions[r]) * inv_freq[i];
                row[i] = static_cast<float>(std::cos(double{angle})) * amplitude;
                row[inv_freq.size() + i] = static_cast<float>(std::sin(double{angle})) * amplitude;
            }
        });
    }

    void mla_write(std::uint32_t layer, const MlaShape &shape, const MlaWeights &w,
                   const StepPlan &plan, Buffer kv, Buffer rope) override {
        const RecordedTime time(step().attention);
        for (const PlanSequence &sequence : plan.sequences)
            for (std::uint32_t r = sequence.first_row; r < sequence.first_row + sequence.n_rows;
                 ++r) {
                float *row = kv.row(r);
                k_.rms_norm(row, w.kv_norm.data, shape.kv_rank, w.norm_eps, row);
                rotate_pairs(row + shape.kv_rank, shape.rope_dim, rope.row(r));
                const std::uint32_t slot = plan.slot[r];
                kv_.store(layer, sequence.pages[slot / kPageTokens], slot % kPageTokens, row);
            }
    }

    void mla_attend(std::uint32_t layer, const MlaShape &shape, const MlaWeights &w,
                    const StepPlan &plan, Buffer q, Buffer rope, Buffer out) override {
        const RecordedTime time(step().attention);
        step().weight_bytes += w.kv_b.bytes();
        for (const PlanSequence &sequence : plan.sequences) {
            const std::uint32_t last = plan.slot[sequence.first_row + sequence.n_rows - 1];
            step().kv_bytes += (last + 1) * kv_.shape().token_bytes();
        }
        absorb_queries(shape, w, plan.n_rows(), q, rope);
        attention_.run(layer, kv_, shape, plan, queries_.data, latents_.data);
        expand_values(shape, w, plan.n_rows(), out);
    }

    void experts(const RouterShape &shape, Buffer logits, const float *bias,
                 std::span<const Expert> experts, Buffer x, std::uint32_t n_rows,
                 Buffer y) override {
        const RecordedTime time(step().experts);
        moe_.run(shape, logits, bias, experts, x, n_rows, y);
        for (const CpuMoe::Group &group : moe_.groups()) {
            const Expert &expert = experts[group.expert];
            step().weight_bytes += expert.gate.bytes() + expert.up.bytes() + expert.down.bytes();
            ++step().experts_hit;
        }
    }

    void draft_write(DraftLayerRef layer, const DraftNorms &norms,
                     std::span<const DraftSequence> sequences, Buffer k, Buffer v,
                     Buffer rope) override {
        const RecordedTime time(step().attention);
        draft_.write(layer, norms, sequences, k, v, rope);
    }

    void draft_attend(DraftLayerRef layer, const DraftNorms &norms,
                      std::span<const DraftSequence> sequences, Buffer q, Buffer k, Buffer v,
                      Buffer rope, Buffer out) override {
        const RecordedTime time(step().attention);
        step().kv_bytes += draft_.context_bytes(layer, sequences);
        draft_.attend(layer, norms, sequences, q, k, v, rope, out);
    }

    void top_k(Buffer logits, std::uint32_t vocab, std::uint32_t n_rows, std::uint32_t k,
               std::int32_t *tokens, double *log_probability) override {
        pool_.run(n_rows, [&](std::size_t r, unsigned) {
            top_k_log_softmax({logits.row(r), vocab}, k, tokens + r * k, log_probability + r * k);
        });
    }

    void copy(Buffer src, std::uint32_t width, std::uint32_t n_rows, Buffer dst) override {
        for (std::size_t r = 0; r < n_rows; ++r)
            std::memcpy(dst.row(r), src.row(r), width * sizeof(float));
    }

    void gather(Buffer src, std::span<const std::uint32_t> rows, std::uint32_t width,
                Buffer dst) override {
        for (std::size_t i = 0; i < rows.size(); ++i)
            std::memcpy(dst.row(i), src.row(rows[i]), width * sizeof(float));
    }

    void move_slots(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> from,
                    std::span<const std::uint32_t> to) override {
        for (std::size_t i = 0; i < from.size(); ++i)
            kv_.move(pages[from[i] / kPageTokens], from[i] % kPageTokens,
                     pages[to[i] / kPageTokens], to[i] % kPageTokens);
    }

    std::size_t page_bytes() const override {
        return kv_.shape().n_layers * kv_.shape().page_bytes() +
               draft_.n_full() * draft_.page_bytes();
    }
    std::size_t ring_bytes() const override { return draft_.n_sliding() * draft_.ring_bytes(); }

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
        page_parts(page,
                   [&](std::byte *part, std::size_t n) { std::memcpy(out, part, n), out += n; });
    }
    void write_page(std::uint32_t page, const std::byte *in) override {
        page_parts(page,
                   [&](std::byte *part, std::size_t n) { std::memcpy(part, in, n), in += n; });
    }
    void read_ring(std::uint32_t ring, std::byte *out) override {
        for (std::uint32_t i = 0; i < draft_.n_sliding(); ++i, out += draft_.ring_bytes())
            std::memcpy(out, draft_.ring(i, ring), draft_.ring_bytes());
    }
    void write_ring(std::uint32_t ring, const std::byte *in) override {
        for (std::uint32_t i = 0; i < draft_.n_sliding(); ++i, in += draft_.ring_bytes())
            std::memcpy(draft_.ring(i, ring), in, draft_.ring_bytes());
    }

    std::span<const float> read(Buffer buffer, std::uint32_t row, std::uint32_t width) override {
        return {buffer.row(row), width};
    }

  private:
    StepRecord &step() { return recorder().step(); }

    template <typename F>
    void page_parts(std::uint32_t page, const F &f) {
        for (std::uint32_t i = 0; i < kv_.shape().n_layers; ++i)
            f(kv_.page(i, page), kv_.shape().page_bytes());
        for (std::uint32_t i = 0; i < draft_.n_full(); ++i)
            f(draft_.page(i, page), draft_.page_bytes());
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

    // queries_[r][h] = (q_nope W_UK[h], rotated q_rope)
    void absorb_queries(const MlaShape &s, const MlaWeights &w, std::uint32_t n_rows, Buffer q,
                        Buffer rope) {
        const std::uint32_t q_dim = s.nope_dim + s.rope_dim, latent = s.kv_rank + s.rope_dim;
        each_head(s, n_rows, [&](std::uint32_t head, std::uint32_t first, std::uint32_t n) {
            const std::byte *w_uk = w.kv_b.row(std::size_t{head} * (s.nope_dim + s.v_dim));
            const float *in = q.row(first) + std::size_t{head} * q_dim;
            float *out = queries_.row(first) + std::size_t{head} * latent;
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

    // out[r][h] = W_UV[h] latents_[r][h]
    void expand_values(const MlaShape &s, const MlaWeights &w, std::uint32_t n_rows, Buffer out) {
        each_head(s, n_rows, [&](std::uint32_t head, std::uint32_t first, std::uint32_t n) {
            const std::uint32_t v_row = head * (s.nope_dim + s.v_dim) + s.nope_dim;
            const Matrix w_uv = w.kv_b.slice_rows(v_row, s.v_dim);
            const float *in[8];
            float *to[8];
            for (std::uint32_t i = 0; i < n; ++i) {
                in[i] = latents_.row(first + i) + std::size_t{head} * s.kv_rank;
                to[i] = out.row(first + i) + std::size_t{head} * s.v_dim;
            }
            k_.linear(w_uv, 0, s.v_dim, in, n, to);
        });
    }

    const CpuKernels &k_;
    ThreadPool pool_;
    std::vector<HostMemory> memory_;
    CpuKvCache kv_;
    CpuAttention attention_;
    CpuMoe moe_;
    CpuDraftAttention draft_;
    Buffer permuted_;           // [rows, width] in int4 order
    Buffer queries_, latents_;  // [rows, heads, kv_rank + rope] and [rows, heads, kv_rank]
    std::vector<const float *> in_;
    std::vector<float *> out_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(CpuIsa isa, unsigned n_threads) {
    return std::make_unique<CpuDevice>(isa, n_threads);
}

}  // namespace kimi
