#include "backend/cuda/cuda_device.h"

#include <algorithm>
#include <optional>

#include "backend/cuda/activations.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/kv.h"
#include "backend/cuda/logits.h"
#include "backend/cuda/nvml.h"
#include "backend/cuda/pass_slices.h"
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
          nvml_(gpu_),
          weights_(stream_) {
        check(cudaDeviceGetAttribute(&n_sms_, cudaDevAttrMultiProcessorCount, gpu_),
              "asking for multiprocessors");
        group_->halts.emplace_back([this] { halt(); });
    }
    ~CudaDevice() override {
        group_->halt();
        cudaSetDevice(gpu_);
    }

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
        slices_.emplace(limits.rows, limits.context, limits.draft);
        kv_.emplace(limits.kv, limits.draft, stream_);
        products_.emplace(limits, n_sms_, stream_);
        attention_.emplace(limits, n_sms_, stream_);
        collectives_.emplace(group_, rank_, limits.hidden, stream_);
        graphs_.emplace(limits.graphs, limits.context + kMaxTreeNodes, stream_);
        pass_ = slices_->used();
        vocab_ = limits.vocab;
        block_size_ = limits.draft.block_size;
        if (!limits.graphs.widths.empty()) step_.emplace(limits, stream_);
        embedded_ = {std::size_t{kMaxRows} * limits.hidden, "activations"};
        split_ = {group_->n_ranks() > 1 ? std::size_t{kMaxRows} * limits.width : 0, "activations"};
        logits_.emplace(limits, *collectives_, stream_);
        check(cudaStreamSynchronize(stream_), "reserving memory");
    }
    void connect() override { use(), collectives_->connect(), graphs_->expect_memory(); }

    void begin(const StepPlan &plan) override { begin_pass(plan); }
    void begin(const DraftPlan &plan) override { begin_pass(plan); }
    void end() override {
        graphs_->end();
        read_nvml();
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
        set_slices(plan.rows);
        collectives_->wait(step_->copied());
        const bool drafts = !plan.blocks.token.empty();
        if (drafts) step_->blocks.set(plan.blocks, {}, stream_);
        step_->set(plan);
        const PassShape &rows = target().shape();
        const PassShape whole = graphs_->begin(
            {PassKind::step, rows.rows, 0, rows.sequences, drafts ? block_size_ : 0});
        KIMI_CHECK(whole.context > 0);  // a graph's
        make_for(whole);
        logits_->forget();
        if (!graphs_->replays()) step_->stamp();
        be_about(drafts ? step_->blocks : target());
    }

    void build_trees(Buffer logits, std::uint32_t vocab) override {
        const bool drafts = slice_ != &target();
        if (!graphs_->replays()) {
            const std::uint32_t k = std::min(kTopKMax - 1, vocab_);
            if (drafts) find_top_k(logits, vocab, k);
            step_->stamp();
            step_->build_trees(target(), {logits_->tokens(), logits_->log_probabilities(),
                                          drafts ? block_size_ - 1 : 0, k});
            step_->stamp();
        }
        be_about(target());
    }

    void accept(Buffer logits, std::uint32_t vocab) override {
        if (!graphs_->replays()) {
            step_->stamp();
            step_->accept(target(), picked_logits(logits, vocab), vocab_, *kv_);
        }
        be_about(step_->context);
    }

    void finish_step() override {
        graphs_->end();
        step_->read(target());
        read_nvml();
        collectives_->finish();
        step_->collect();
    }
    const WholeStepResult &result(std::uint32_t sequence) const override {
        return step_->result(sequence);
    }
    const WholeStepTimes &times() const override { return step_->times(); }

    void embed(const Matrix &table, Buffer x) override {
        each_slice([&] {
            const bool whole = group_->n_ranks() == 1;
            float *const to = at(x), *const y = whole ? to : embedded_.data();
            kimi::embed({rows().token, bf16s(table.data), y, nullptr, &rows().n_rows, n_rows(),
                         table.cols, static_cast<std::int32_t>(rank_ * table.rows), table.rows},
                        stream_);
            if (whole) return;
            check(
                cudaMemsetAsync(to, 0, std::size_t{n_rows()} * table.cols * sizeof(float), stream_),
                "clearing activations");
            collectives_->add({y, to, nullptr, nullptr, 0, &rows().n_rows, n_rows(), table.cols});
        });
    }

    void rms_norm(Buffer x, const Vector &w, float eps, Rows of, Buffer y) override {
        each_slice([&] {
            kimi::rms_norm({at(x, of), nullptr, nullptr, bf16s(w.data), narrow(y, of), count_at(of),
                            count(of), w.n, eps},
                           stream_);
        });
    }

    void add_norm(Buffer x, Buffer y, std::uint32_t width, const Vector &w, float eps,
                  Buffer a) override {
        each_slice([&] {
            collectives_->add({at(y), at(x), bf16s(w.data), w.n > 0 ? narrow(a) : nullptr, eps,
                               &rows().n_rows, n_rows(), width});
        });
    }

    void linear(std::span<const LinearJob> jobs, Rows of) override {
        for (const LinearJob &job : jobs) recorder().step().weight_bytes += job.weight->bytes();
        while (!jobs.empty()) {
            std::size_t n = 1;
            while (n < jobs.size() && n < kSkinnyGemmMaxJobs && jobs[n].in.data == jobs[0].in.data)
                ++n;
            each_slice([&] { linear_of_one_input(jobs.first(n), of); });
            jobs = jobs.subspan(n);
        }
    }

    void swiglu(Buffer gate, Buffer up, std::uint32_t width) override {
        each_slice([&] {
            kimi::swiglu({at(gate), at(up), narrow(gate), &rows().n_rows, n_rows(), width},
                         stream_);
        });
    }

    void rope(std::span<const float> inv_freq, float amplitude, Buffer table) override {
        each_slice([&] {
            kimi::rope_table({rows().position, inv_freq.data(), at(table), &rows().n_rows, n_rows(),
                              static_cast<std::uint32_t>(inv_freq.size()), amplitude},
                             stream_);
        });
    }

    void mla(std::uint32_t layer, const MlaShape &shape, const MlaWeights &w, Buffer q, Buffer kv,
             Buffer rope, Buffer out) override {
        recorder().step().weight_bytes += w.kv_b.bytes();
        recorder().step().kv_bytes +=
            slices_->kv_tokens() * kv_->shape().token_bytes() / kv_->shape().n_shards;
        each_slice([&] {
            attention_->attend({*slice_, *kv_, *products_, *collectives_, shape, w, weights_.of(w),
                                layer, at(kv), at(rope), narrow(q), narrow(out)});
        });
    }

    void experts(const RouterShape &shape, Buffer logits, const float *bias,
                 std::span<const Expert> experts, Buffer x, Buffer y) override {
        if (graphs_->replays()) return;
        slice_ = &pass_[0];  // the kernels take all slices at once
        const std::uint32_t n = pass_.size() == 1 ? n_rows() : slice_->place().n_pass_rows;
        products_->experts(shape, weights_.of(experts), logits.data, bias, narrow(x), y.data,
                           &rows().n_pass_rows, n);
    }

    void draft_write(DraftLayerRef layer, const DraftNorms &norms, Buffer k, Buffer v,
                     Buffer rope) override {
        each_slice(
            [&] { attention_->draft_write(*slice_, *kv_, layer, norms, at(k), at(v), at(rope)); });
    }

    void draft_attend(DraftLayerRef layer, const DraftNorms &norms, Buffer q, Buffer k, Buffer v,
                      Buffer rope, Buffer out) override {
        each_slice([&] {
            attention_->draft_attend(*slice_, *kv_, layer, norms, at(q), at(k), at(v), at(rope),
                                     narrow(out));
        });
    }

    void top_k(Buffer logits, std::uint32_t vocab, std::uint32_t k, std::int32_t *tokens,
               double *log_probability) override {
        find_top_k(logits, vocab, k);
        logits_->read_lists(n_picked(), k, tokens, log_probability);
    }

    void copy(Buffer src, std::uint32_t width, Buffer dst) override {
        each_slice([&] {
            check(cudaMemcpy2DAsync(at(dst), dst.width * sizeof(float), at(src),
                                    src.width * sizeof(float), width * sizeof(float), n_rows(),
                                    cudaMemcpyDeviceToDevice, stream_),
                  "copying activations");
        });
    }

    void gather(Buffer src, std::uint32_t width, Buffer dst) override {
        KIMI_CHECK(src.width == width && dst.width == width);
        each_slice([&] {  // what is picked lies anywhere in src
            kimi::gather_rows(
                {src.data, rows().picked, at(dst, Rows::picked), narrow(dst, Rows::picked),
                 &rows().n_picked, count(Rows::picked), width},
                stream_);
        });
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

    std::span<const float> read(Buffer buffer, std::uint32_t row, std::uint32_t width) override {
        use();
        KIMI_CHECK(buffer.width == width);
        return logits_->read(buffer, row, n_picked());
    }

  private:
    template <typename Plan>
    void set_slices(const Plan &plan) {
        for (const PassTables &slice : slices_->used()) collectives_->wait(slice.copied());
        slices_->set(plan, stream_);
    }
    template <typename Plan>
    void begin_pass(const Plan &plan) {
        use();
        set_slices(plan);
        pass_ = slices_->used();
        slice_ = &target();
        if (pass_.size() == 1)
            target().make_for(graphs_->begin(target().shape()));
        else
            graphs_->begin({});  // there is none
        logits_->forget();
    }
    // The tables of the target's rows in a step.
    PassTables &target() { return slices_->only(); }
    // The pass that the operations are about from now on.
    void be_about(PassTables &tables) {
        pass_ = {&tables, 1};
        slice_ = &tables;
    }
    // Makes the launches of an operation for each slice of the pass; a graph has them already.
    template <typename Launches>
    void each_slice(const Launches &launches) {
        if (graphs_->replays()) return;
        for (PassTables &slice : pass_) {
            slice_ = &slice;
            launches();
        }
    }
    // The GPU computes the pass meanwhile.
    void read_nvml() {
        std::optional<GpuReading> &reading = recorder().step().gpu;
        if (!reading) reading = nvml_.read();
    }
    // The launches of a step's passes.
    void make_for(const PassShape &step) {
        const std::uint32_t n = step.sequences, rows = step.rows;
        target().make_for({PassKind::target, rows, rows, n, rows, step.context});
        step_->context.make_for({PassKind::context, rows, rows, n, rows, step.context});
        step_->blocks.make_for({PassKind::block, n * step.widest, n * (step.widest - 1), n,
                                step.widest, step.context});
    }
    // Of the slice's picked rows, of all ranks.
    const float *picked_logits(Buffer logits, std::uint32_t part) {
        return logits_->whole(at(logits, Rows::picked), part, count(Rows::picked));
    }
    void find_top_k(Buffer logits, std::uint32_t part, std::uint32_t k) {
        each_slice([&] {
            logits_->list(picked_logits(logits, part), count_at(Rows::picked), count(Rows::picked),
                          k, slice_->place().first_pick);
        });
    }

    // Outputs that the ranks share go through split_.
    void linear_of_one_input(std::span<const LinearJob> jobs, Rows of) {
        LinearJob own[kSkinnyGemmMaxJobs];
        float *part = split_.data();
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            own[i] = jobs[i];
            own[i].in.data = at(jobs[i].in, of);
            own[i].out.data = at(jobs[i].out, of);
            if (jobs[i].whole <= jobs[i].weight->rows) continue;
            own[i].out.data = part;
            part += std::size_t{kMaxRows} * jobs[i].weight->rows;
        }
        KIMI_CHECK(part <= split_.data() + split_.size());
        products_->linear({own, jobs.size()}, activations_, count_at(of), count(of));
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            float *const out = at(jobs[i].out, of);
            if (own[i].out.data != out)
                collectives_->gather(own[i].out.data, jobs[i].weight->rows, count(of), out);
        }
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

    // Of the slice.
    const PassRows &rows() const { return *slice_->rows(); }
    float *at(Buffer buffer, Rows of = Rows::all) const {
        const SlicePlace &place = slice_->place();
        return buffer.row(of == Rows::all ? place.first_row : place.first_pick);
    }
    bf16 *narrow(Buffer buffer, Rows of = Rows::all) const {
        return activations_.narrow(at(buffer, of));
    }
    // What launches are made for.
    std::uint32_t n_rows() const { return slice_->shape().rows; }
    std::uint32_t count(Rows of) const {
        return of == Rows::all ? slice_->shape().rows : slice_->shape().picked;
    }
    const std::uint32_t *count_at(Rows of) const {
        return of == Rows::all ? &rows().n_rows : &rows().n_picked;
    }
    std::uint32_t n_picked() const {  // of the pass
        const PassTables &last = pass_.back();
        return last.place().first_pick + last.n_picked();
    }

    int gpu_, n_sms_ = 0;
    std::shared_ptr<Group> group_;
    std::uint32_t rank_;
    Stream stream_;
    Nvml nvml_;
    CudaWeights weights_;
    Activations activations_;
    std::optional<PassSlices> slices_;
    std::optional<StepMemory> step_;
    std::span<PassTables> pass_;   // whose rows the operations are about
    PassTables *slice_ = nullptr;  // of which those are that launches are made for
    std::uint32_t vocab_ = 0, block_size_ = 0;
    std::optional<CudaKv> kv_;
    std::optional<Products> products_;
    std::optional<Attention> attention_;
    std::optional<Collectives> collectives_;
    std::optional<Graphs> graphs_;
    std::optional<Logits> logits_;
    DeviceArray<float> embedded_;  // [rows, hidden] of this rank's part of the vocabulary
    DeviceArray<float> split_;     // [rows, outputs] of this rank's parts of products
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(std::shared_ptr<Group> group, std::uint32_t rank) {
    return std::make_unique<CudaDevice>(std::move(group), rank);
}

}  // namespace kimi::cuda
