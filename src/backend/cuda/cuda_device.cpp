#include "backend/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cuda/activations.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/kv.h"
#include "backend/cuda/pass_tables.h"
#include "backend/cuda/products.h"
#include "backend/cuda/step_memory.h"
#include "backend/cuda/weights.h"
#include "kernels/embed.h"
#include "kernels/gather_rows.h"
#include "kernels/kv_layout.h"
#include "kernels/rms_norm.h"
#include "kernels/rope_table.h"
#include "kernels/swiglu.h"
#include "kernels/top_k.h"

namespace kimi::cuda {
namespace {

const bf16 *bf16s(const std::byte *data) {
    return reinterpret_cast<const bf16 *>(data);
}

class CudaDevice final : public Device, public WholeSteps {
  public:
    CudaDevice(std::shared_ptr<Group> group, std::uint32_t rank)
        : gpu_(static_cast<int>(rank)),
          group_(std::move(group)),
          rank_(rank),
          stream_(on_gpu<Stream>()),
          weights_(stream_) {
        check(cudaDeviceGetAttribute(&n_sms_, cudaDevAttrMultiProcessorCount, gpu_),
              "asking for multiprocessors");
        group_->halts.emplace_back([this] { halt(); });
    }
    ~CudaDevice() override {
        group_->halt();
        cudaSetDevice(gpu_);
    }

    std::uint32_t max_rows() const override { return kMaxRows; }

    void load(Matrix &w) override { use(), weights_.load(w); }
    void load(Vector &w) override { use(), weights_.load(w); }
    void load(std::shared_ptr<const float[]> &values, std::uint32_t n) override {
        use(), weights_.load(values, n);
    }
    void load(MlaWeights &w, const MlaShape &shape) override { use(), weights_.load(w, shape); }
    void load(std::span<Expert> layer) override { use(), weights_.load(layer); }

    Buffer alloc(std::uint32_t rows, std::uint32_t width) override {
        use();
        return activations_.alloc(rows, width);
    }

    void reserve(const DeviceLimits &limits) override {
        use();
        weights_.finish();
        check_limits(limits);
        tables_.emplace(limits.context, limits.draft);
        kv_.emplace(limits.kv, limits.draft, stream_);
        products_.emplace(limits, n_sms_, stream_);
        attention_.emplace(limits, n_sms_, stream_);
        collectives_.emplace(group_, rank_, limits.hidden, stream_);
        graphs_.emplace(limits.graphs, limits.context + kMaxTreeNodes, stream_);
        pass_ = &*tables_;
        vocab_ = limits.vocab;
        block_size_ = limits.draft.block_size;
        if (!limits.graphs.widths.empty()) step_.emplace(limits, stream_);
        embedded_ = {std::size_t{kMaxRows} * limits.hidden, "activations"};
        split_ = {group_->n_ranks() > 1 ? std::size_t{kMaxRows} * limits.width : 0, "activations"};
        reserve_logits(limits.vocab);
        top_tokens_ = {std::size_t{kMaxRows} * kTopKMax, "drafted tokens"};
        top_log_p_ = {std::size_t{kMaxRows} * kTopKMax, "drafted tokens"};
        top_tokens_host_ = {top_tokens_.size(), "drafted tokens"};
        top_log_p_host_ = {top_log_p_.size(), "drafted tokens"};
        check(cudaStreamSynchronize(stream_), "reserving memory");
    }
    void connect() override { use(), collectives_->connect(); }

    void begin(const StepPlan &plan) override { begin_pass(plan); }
    void begin(const DraftPlan &plan) override { begin_pass(plan); }
    void end() override {
        graphs_->end();
        // Each rank sees whether its own GPU fails: the others may wait for it.
        if (group_->n_ranks() > 1) collectives_->finish();
    }

    WholeSteps *whole_steps() override { return step_ ? this : nullptr; }
    std::uint32_t max_step_rows(std::uint32_t n_sequences) const override {
        const PassShape largest = graphs_->largest_step(n_sequences);
        const bool fits = largest.sequences * block_size_ <= kMaxRows && vocab_ % 4 == 0;
        return fits ? largest.rows : 0;
    }

    void begin_step(const WholeStepPlan &plan) override {
        use();
        collectives_->wait(tables_->copied());
        collectives_->wait(step_->copied());
        tables_->set(plan.rows, stream_);
        const bool drafts = !plan.blocks.token.empty();
        if (drafts) step_->blocks.set(plan.blocks, stream_);
        step_->set(plan);
        const PassShape whole =
            graphs_->begin({PassKind::step, tables_->shape().rows, 0, tables_->shape().sequences,
                            drafts ? block_size_ : 0});
        KIMI_CHECK(whole.context > 0);  // a graph's
        make_for(whole);
        read_ = nullptr;
        if (!graphs_->replays()) step_->stamp();
        pass_ = drafts ? &step_->blocks : &*tables_;
    }

    void build_trees(Buffer logits, std::uint32_t vocab) override {
        const bool drafts = pass_ != &*tables_;
        if (!graphs_->replays()) {
            const std::uint32_t k = std::min(kTopKMax - 1, vocab_);
            if (drafts) find_top_k(logits, vocab, k, count(Rows::picked));
            step_->stamp();
            step_->build_trees(
                *tables_, {top_tokens_.data(), top_log_p_.data(), drafts ? block_size_ - 1 : 0, k});
            step_->stamp();
        }
        pass_ = &*tables_;
    }

    void accept(Buffer logits, std::uint32_t vocab) override {
        if (!graphs_->replays()) {
            step_->stamp();
            step_->accept(*tables_, whole_rows(logits, vocab, count(Rows::picked)), vocab_, *kv_);
        }
        pass_ = &step_->context;
    }

    void finish_step() override {
        graphs_->end();
        step_->read(*tables_);
        collectives_->finish();
        step_->collect();
    }
    const WholeStepResult &result(std::uint32_t sequence) const override {
        return step_->result(sequence);
    }
    const WholeStepTimes &times() const override { return step_->times(); }

    void embed(const Matrix &table, Buffer x) override {
        if (graphs_->replays()) return;
        const bool whole = group_->n_ranks() == 1;
        float *const y = whole ? x.data : embedded_.data();
        kimi::embed({rows().token, bf16s(table.data), y, nullptr, &rows().n_rows, n_rows(),
                     table.cols, static_cast<std::int32_t>(rank_ * table.rows), table.rows},
                    stream_);
        if (whole) return;
        check(
            cudaMemsetAsync(x.data, 0, std::size_t{n_rows()} * table.cols * sizeof(float), stream_),
            "clearing activations");
        collectives_->add({y, x.data, nullptr, nullptr, 0, &rows().n_rows, n_rows(), table.cols});
    }

    void rms_norm(Buffer x, const Vector &w, float eps, Rows of, Buffer y) override {
        if (graphs_->replays()) return;
        kimi::rms_norm(
            {x.data, nullptr, nullptr, bf16s(w.data), narrow(y), count_at(of), count(of), w.n, eps},
            stream_);
    }

    void add_norm(Buffer x, Buffer y, std::uint32_t width, const Vector &w, float eps,
                  Buffer a) override {
        if (graphs_->replays()) return;
        collectives_->add({y.data, x.data, bf16s(w.data), w.n > 0 ? narrow(a) : nullptr, eps,
                           &rows().n_rows, n_rows(), width});
    }

    void linear(std::span<const LinearJob> jobs, Rows of) override {
        for (const LinearJob &job : jobs) recorder().step().weight_bytes += job.weight->bytes();
        if (graphs_->replays()) return;
        while (!jobs.empty()) {
            std::size_t n = 1;
            while (n < jobs.size() && n < kSkinnyGemmMaxJobs && jobs[n].in.data == jobs[0].in.data)
                ++n;
            linear_of_one_input(jobs.first(n), of);
            jobs = jobs.subspan(n);
        }
    }

    void swiglu(Buffer gate, Buffer up, std::uint32_t width) override {
        if (graphs_->replays()) return;
        kimi::swiglu({gate.data, up.data, narrow(gate), &rows().n_rows, n_rows(), width}, stream_);
    }

    void rope(std::span<const float> inv_freq, float amplitude, Buffer table) override {
        if (graphs_->replays()) return;
        kimi::rope_table({rows().position, inv_freq.data(), table.data, &rows().n_rows, n_rows(),
                          static_cast<std::uint32_t>(inv_freq.size()), amplitude},
                         stream_);
    }

    void mla_write(std::uint32_t layer, const MlaShape &, const MlaWeights &w, Buffer kv,
                   Buffer rope) override {
        // The kernel that rotates the queries also writes the latents: mla_attend calls it.
        written_ = {layer, &w, kv.data, rope.data};
    }

    void mla_attend(std::uint32_t layer, const MlaShape &shape, const MlaWeights &w, Buffer q,
                    Buffer, Buffer out) override {
        KIMI_CHECK(written_.layer == layer && written_.weights == &w);
        recorder().step().weight_bytes += w.kv_b.bytes();
        recorder().step().kv_bytes +=
            pass_->kv_tokens() * kv_->shape().token_bytes() / kv_->shape().n_shards;
        if (graphs_->replays()) return;
        attention_->attend({*pass_, *kv_, *products_, *collectives_, shape, w, weights_.of(w),
                            layer, written_.kv, written_.rope, narrow(q), narrow(out)});
    }

    void experts(const RouterShape &shape, Buffer logits, const float *bias,
                 std::span<const Expert> experts, Buffer x, Buffer y) override {
        if (graphs_->replays()) return;
        products_->experts(shape, weights_.of(experts), logits.data, bias, narrow(x), y.data,
                           &rows().n_rows, n_rows());
    }

    void draft_write(DraftLayerRef layer, const DraftNorms &norms, Buffer k, Buffer v,
                     Buffer rope) override {
        if (graphs_->replays()) return;
        attention_->draft_write(*pass_, *kv_, layer, norms, k.data, v.data, rope.data);
    }

    void draft_attend(DraftLayerRef layer, const DraftNorms &norms, Buffer q, Buffer k, Buffer v,
                      Buffer rope, Buffer out) override {
        if (graphs_->replays()) return;
        attention_->draft_attend(*pass_, *kv_, layer, norms, q.data, k.data, v.data, rope.data,
                                 narrow(out));
    }

    void top_k(Buffer logits, std::uint32_t vocab, std::uint32_t k, std::int32_t *tokens,
               double *log_probability) override {
        const std::uint32_t n = pass_->n_picked();
        find_top_k(logits, vocab, k, n);
        const std::size_t found = std::size_t{n} * k;
        copy_back(top_tokens_host_.data(), top_tokens_.data(), found * sizeof(std::int32_t));
        copy_back(top_log_p_host_.data(), top_log_p_.data(), found * sizeof(double));
        collectives_->finish();
        std::copy_n(top_tokens_host_.data(), found, tokens);
        std::copy_n(top_log_p_host_.data(), found, log_probability);
    }

    void copy(Buffer src, std::uint32_t width, Buffer dst) override {
        if (graphs_->replays()) return;
        check(cudaMemcpy2DAsync(dst.data, dst.width * sizeof(float), src.data,
                                src.width * sizeof(float), width * sizeof(float), n_rows(),
                                cudaMemcpyDeviceToDevice, stream_),
              "copying activations");
    }

    void gather(Buffer src, std::uint32_t width, Buffer dst) override {
        if (graphs_->replays()) return;
        KIMI_CHECK(src.width == width && dst.width == width);
        kimi::gather_rows({src.data, rows().picked, dst.data, narrow(dst), &rows().n_picked,
                           count(Rows::picked), width},
                          stream_);
    }

    void move_slots(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> from,
                    std::span<const std::uint32_t> to) override {
        use(), kv_->move_slots(pages, from, to);
    }
    void read_slot(std::uint32_t page, std::uint32_t offset, std::byte *out) override {
        use(), kv_->read_slot(page, offset, out);
    }
    void write_slot(std::uint32_t page, std::uint32_t offset, const std::byte *in) override {
        use(), kv_->write_slot(page, offset, in);
    }
    std::size_t page_bytes() const override { return kv_->page_bytes(); }
    std::size_t ring_bytes() const override { return kv_->ring_bytes(); }
    void copy_page(std::uint32_t from, std::uint32_t to) override {
        use(), kv_->copy_page(from, to);
    }
    void copy_ring(std::uint32_t from, std::uint32_t to) override {
        use(), kv_->copy_ring(from, to);
    }
    void read_page(std::uint32_t page, std::byte *out) override {
        use(), kv_->read_page(page, out);
    }
    void write_page(std::uint32_t page, const std::byte *in) override {
        use(), kv_->write_page(page, in);
    }
    void read_ring(std::uint32_t ring, std::byte *out) override {
        use(), kv_->read_ring(ring, out);
    }
    void write_ring(std::uint32_t ring, const std::byte *in) override {
        use(), kv_->write_ring(ring, in);
    }

    // All picked rows come at once, with the first of them.
    std::span<const float> read(Buffer buffer, std::uint32_t row, std::uint32_t width) override {
        use();
        const std::size_t n = std::size_t{pass_->n_picked()} * width;
        if (read_ != buffer.data) {
            KIMI_CHECK(n <= read_host_.size());
            copy_back(read_host_.data(), buffer.data, n * sizeof(float));
            collectives_->finish();
            read_ = buffer.data;
        }
        return {read_host_.data() + std::size_t{row} * width, width};
    }

  private:
    template <typename Plan>
    void begin_pass(const Plan &plan) {
        use();
        collectives_->wait(tables_->copied());
        tables_->set(plan, stream_);
        tables_->make_for(graphs_->begin(tables_->shape()));
        pass_ = &*tables_;
        read_ = nullptr;
    }
    // The launches of a step's passes.
    void make_for(const PassShape &step) {
        const std::uint32_t n = step.sequences, rows = step.rows;
        tables_->make_for({PassKind::target, rows, rows, n, rows, step.context});
        step_->context.make_for({PassKind::context, rows, rows, n, rows, step.context});
        step_->blocks.make_for({PassKind::block, n * step.widest, n * (step.widest - 1), n,
                                step.widest, step.context});
    }
    // Rows with the logits of all ranks.
    const float *whole_rows(Buffer logits, std::uint32_t vocab, std::uint32_t n) {
        if (group_->n_ranks() == 1) return logits.data;
        collectives_->gather(logits.data, vocab, n, whole_logits_.data());
        return whole_logits_.data();
    }
    void find_top_k(Buffer logits, std::uint32_t vocab, std::uint32_t k, std::uint32_t n) {
        kimi::top_k({whole_rows(logits, vocab, n), count_at(Rows::picked), n, vocab_, k,
                     top_tokens_.data(), top_log_p_.data(), part_keys_.data(), part_sums_.data()},
                    stream_);
    }
    void reserve_logits(std::uint32_t vocab) {
        const std::size_t parts = std::size_t{kMaxRows} * top_k_chunks(vocab);
        part_keys_ = {parts * kTopKMax, "drafted tokens"};
        part_sums_ = {parts * 2, "drafted tokens"};
        read_host_ = {std::size_t{kMaxRows} * vocab / group_->n_ranks(), "logits"};
        if (group_->n_ranks() > 1)
            whole_logits_ = {std::size_t{kMaxRows} * vocab, "logits of all ranks"};
    }

    // Outputs that the ranks share go through split_.
    void linear_of_one_input(std::span<const LinearJob> jobs, Rows of) {
        LinearJob own[kSkinnyGemmMaxJobs];
        float *part = split_.data();
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            own[i] = jobs[i];
            if (jobs[i].whole <= jobs[i].weight->rows) continue;
            own[i].out.data = part;
            part += std::size_t{kMaxRows} * jobs[i].weight->rows;
        }
        KIMI_CHECK(part <= split_.data() + split_.size());
        products_->linear({own, jobs.size()}, activations_, count_at(of), count(of));
        for (std::size_t i = 0; i < jobs.size(); ++i)
            if (own[i].out.data != jobs[i].out.data)
                collectives_->gather(own[i].out.data, jobs[i].weight->rows, count(of),
                                     jobs[i].out.data);
    }

    void halt() noexcept {
        cudaSetDevice(gpu_);
        if (graphs_) graphs_->abandon();
        if (collectives_) collectives_->leave_if_failed();
        cudaStreamSynchronize(stream_);
    }
    void use() const { check(cudaSetDevice(gpu_), "choosing a GPU"); }
    template <typename T>
    T on_gpu() const {
        use();
        return T();
    }
    static void check_limits(const DeviceLimits &limits) {
        if (limits.kv.type == KvType::f32)
            fail(KIMI_UNSUPPORTED,
                 "field kv.type: f32 is for the CPU, the CUDA backend has bf16 and "
                 "fp8");
        if (limits.kv.kv_rank != kMlaLatent || limits.kv.rope_dim != kMlaRope)
            fail(KIMI_UNSUPPORTED, "the CUDA backend takes ", kMlaLatent, " + ", kMlaRope,
                 " dimensions of latent KV, this model has ", limits.kv.kv_rank, " + ",
                 limits.kv.rope_dim);
    }

    const PassRows &rows() const { return *pass_->rows(); }
    // What launches are made for.
    std::uint32_t n_rows() const { return pass_->shape().rows; }
    std::uint32_t count(Rows of) const {
        return of == Rows::all ? pass_->shape().rows : pass_->shape().picked;
    }
    const std::uint32_t *count_at(Rows of) const {
        return of == Rows::all ? &rows().n_rows : &rows().n_picked;
    }
    bf16 *narrow(Buffer buffer) const { return activations_.narrow(buffer); }

    void copy_back(void *to, const void *from, std::size_t bytes) {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "copying results");
    }
    // What mla_write leaves to mla_attend.
    struct Written {
        std::uint32_t layer = 0;
        const MlaWeights *weights = nullptr;
        const float *kv = nullptr, *rope = nullptr;
    };

    int gpu_, n_sms_ = 0;
    std::shared_ptr<Group> group_;
    std::uint32_t rank_;
    Stream stream_;
    CudaWeights weights_;
    Activations activations_;
    std::optional<PassTables> tables_;
    std::optional<StepMemory> step_;
    PassTables *pass_ = nullptr;  // whose rows the operations are about
    std::uint32_t vocab_ = 0, block_size_ = 0;
    std::optional<CudaKv> kv_;
    std::optional<Products> products_;
    std::optional<Attention> attention_;
    std::optional<Collectives> collectives_;
    std::optional<Graphs> graphs_;
    Written written_;
    DeviceArray<float> embedded_;  // [rows, hidden] of this rank's part of the vocabulary
    DeviceArray<float> split_;     // [rows, outputs] of this rank's parts of products
    DeviceArray<float> whole_logits_;
    DeviceArray<std::int32_t> top_tokens_;
    DeviceArray<double> top_log_p_, part_sums_;
    DeviceArray<unsigned long long> part_keys_;
    PinnedArray<std::int32_t> top_tokens_host_;
    PinnedArray<double> top_log_p_host_;
    PinnedArray<float> read_host_;
    const float *read_ = nullptr;  // whose picked rows are in read_host_
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(std::shared_ptr<Group> group, std::uint32_t rank) {
    return std::make_unique<CudaDevice>(std::move(group), rank);
}

}  // namespace kimi::cuda
