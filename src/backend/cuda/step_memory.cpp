#include "backend/cuda/step_memory.h"

#include <algorithm>

#include "kernels/context_rows.h"
#include "kernels/time_stamp.h"
#include "kernels/tree_accept.h"

namespace kimi::cuda {

StepMemory::StepMemory(const DeviceLimits &limits, cudaStream_t stream)
    : blocks(limits.context, limits.draft),
      context(limits.context, limits.draft),
      stream_(stream),
      ring_slots_(limits.draft.ring_slots),
      drafts_(limits.draft.n_heads > 0),
      input_host_(1, "step tables"),
      input_(1, "step tables"),
      output_(1, "step results"),
      output_host_(1, "step results"),
      rows_host_(1, "step results"),
      results_(kMaxRows) {}

void StepMemory::set(const WholeStepPlan &plan) {
    Input &in = *input_host_.data();
    in.n_sequences = static_cast<std::uint32_t>(plan.sequences.size());
    for (std::uint32_t s = 0; s < in.n_sequences; ++s) {
        const WholeStepSequence &sequence = plan.sequences[s];
        const PlanSequence &place = plan.rows.sequences[s];
        in.first_row[s] = place.first_row;
        in.rows[s] = place.n_rows;
        in.budget[s] = sequence.budget;
        in.root_position[s] = plan.rows.position[place.first_row];
        in.root_token[s] = plan.rows.token[place.first_row];
        in.ring[s] = sequence.ring;
        const SamplingOptions &o = sequence.sampling;
        std::fill_n(in.options + place.first_row, place.n_rows,
                    SampleOptions{o.seed, o.temperature, o.top_p, o.min_p, o.top_k, {}});
    }
    check(cudaMemcpyAsync(input_.data(), &in, sizeof in, cudaMemcpyHostToDevice, stream_),
          "copying the tables of a step");
    copied_.record(stream_);
    n_stamps_ = 0;
}

void StepMemory::stamp() {
    KIMI_CHECK(n_stamps_ < kStamps);
    time_stamp(output_.data()->stamp + n_stamps_++, stream_);
}

void StepMemory::build_trees(const PassTables &target, const DraftedLists &lists) {
    const Input *const in = input_.data();
    Output *const out = output_.data();
    PassRows *const rows = target.device_rows();
    tree_build(
        {lists.token, lists.log_probability, lists.depth, lists.k, &in->n_sequences, in->budget,
         in->first_row, in->rows, in->root_token, in->root_position, target.shape().sequences,
         out->n_nodes, out->log_probability, rows->token, rows->position, rows->word, out->parent},
        stream_);
}

void StepMemory::accept(const PassTables &target, const float *logits, std::uint32_t vocab,
                        const CudaKv &kv) {
    const Input *const in = input_.data();
    Output *const out = output_.data();
    const PassRows *const rows = target.rows();
    const PassShape &shape = target.shape();
    sample({logits, in->options, rows->position, &rows->n_rows, shape.rows, vocab, out->target},
           stream_);
    tree_accept({&in->n_sequences, shape.sequences, in->first_row, in->rows, rows->token,
                 out->parent, out->target, rows->cell, out->n_committed, out->path, out->token,
                 &out->n_moves, out->from, out->to, kv.in_shards()},
                stream_);
    stamp();
    kv.compact(&out->n_moves, out->from, out->to, shape.rows);
    if (drafts_) {
        PassRows *const grown = context.device_rows();
        context_rows(
            {&in->n_sequences, shape.sequences, in->first_row, out->n_committed, out->path,
             in->root_position, rows->cell, in->ring, ring_slots_, &grown->n_rows, &grown->n_picked,
             grown->picked, grown->position, grown->cell, grown->ring_cell},
            stream_);
    }
    stamp();
}

void StepMemory::read(const PassTables &target) {
    check(cudaMemcpyAsync(rows_host_.data(), target.rows(), rows_host_.bytes(),
                          cudaMemcpyDeviceToHost, stream_),
          "copying results");
    check(cudaMemcpyAsync(output_host_.data(), output_.data(), output_host_.bytes(),
                          cudaMemcpyDeviceToHost, stream_),
          "copying results");
}

void StepMemory::collect(std::uint32_t s) {
    const Input &in = *input_host_.data();
    const Output &out = *output_host_.data();
    const PassRows &rows = *rows_host_.data();
    const std::uint32_t first = in.first_row[s];
    WholeStepResult &result = results_[s];
    DraftTree &tree = result.tree;
    result.n_nodes = out.n_nodes[s];
    tree.n = std::min(result.n_nodes, in.rows[s] - 1);
    std::copy_n(out.log_probability + std::size_t{s} * kTreeRows, result.n_nodes,
                tree.log_probability);
    for (std::uint32_t i = 0; i < tree.n; ++i) {
        const std::uint32_t row = first + 1 + i;
        tree.token[i] = rows.token[row];
        tree.parent[i] = out.parent[row];
        tree.depth[i] = static_cast<std::uint8_t>(rows.position[row] - in.root_position[s]);
    }
    result.n_accepted = out.n_committed[s] - 1;
    std::copy_n(out.token + first, out.n_committed[s], result.token);
}

void StepMemory::collect() {
    for (std::uint32_t s = 0; s < input_host_.data()->n_sequences; ++s) collect(s);
    const std::uint64_t *const at = output_host_.data()->stamp;
    const auto seconds = [at](std::uint32_t part) {
        return 1e-9 * static_cast<double>(at[part + 1] - at[part]);
    };
    times_ = {seconds(0), seconds(1), seconds(2), seconds(3), seconds(4)};
}

}  // namespace kimi::cuda
