// The model on its ranks: weights, buffers and KV cache, and the passes over them.
//
// One rank computes on the caller's thread, several on threads of their own that share the
// deployment's cores. All ranks read the same mapped files.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backend/device.h"
#include "backend/ranked_kv.h"
#include "deploy/deployment.h"
#include "engine/host.h"
#include "engine/pass_arguments.h"
#include "engine/rank_team.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/digest.h"
#include "model/drafter.h"
#include "model/shards.h"
#include "model/target.h"

namespace kimi {

// Tokens of the longest session; max_position is the model's. Throws KIMI_INVALID_ARGUMENT with the
// field.
std::uint32_t context_limit_of(const Deployment &deployment, std::uint32_t max_position);

// The ranks of a CPU share the deployment's threads; each has one at least.
unsigned threads_per_rank(const Deployment &deployment);

// What one rank has.
struct Rank {
    TargetWeights weights;
    DrafterWeights drafter_weights;
    std::unique_ptr<Device> device;
    std::unique_ptr<Target> target;
    std::unique_ptr<Drafter> drafter;  // nullptr: none
};

// A loaded model. Ranks refer to it: it does not move.
struct Model {
    ModelConfig config;
    Checkpoint checkpoint;
    TargetWeights weights;
    std::optional<DrafterConfig> drafter_config;
    Checkpoint drafter_checkpoint;
    DrafterWeights drafter_weights;
    DeviceLimits limits;  // of rank 0
    std::shared_ptr<Communicator> communicator;
    std::vector<Rank> ranks;
    PassArguments arguments;
};

class Runner {
  public:
    // Opens the checkpoints and reserves all memory. Throws any status; the text names the file,
    // tensor or field.
    Runner(const Deployment &deployment, const Progress &progress, const Host &host = {});

    const ModelConfig &config() const { return model_->config; }
    const TargetWeights &weights() const { return model_->weights; }  // of all ranks
    std::uint64_t weight_bytes() const;                               // of both checkpoints
    // Of the checkpoints; the drafter's is zero where there is none. Any thread.
    // They read a little of every file, so they are computed when they are first asked for.
    struct Digests {
        Digest target{}, drafter{};
    };
    Digests digests() const;
    // What the drafter's rope is multiplied by.
    float rope_attention_factor() const { return drafter() ? drafter()->rope_amplitude() : 0; }
    const DeviceLimits &limits() const { return model_->limits; }
    const KvShape &kv() const { return limits().kv; }
    std::uint32_t context_limit() const { return limits().context; }
    std::uint32_t max_rows() const { return limits().rows; }
    std::uint32_t n_ranks() const { return static_cast<std::uint32_t>(model_->ranks.size()); }
    Device &device() const { return *model_->ranks[0].device; }  // of rank 0
    // Only between passes.
    KvMemory &memory() const { return *memory_; }
    // Of rank 0, with what it drafted last; nullptr: none.
    const Drafter *drafter() const { return model_->ranks[0].drafter.get(); }

    // The passes of Target and Drafter, on all ranks. They throw what a rank throws; then the model
    // computes no more.
    void forward(const StepPlan &plan);
    void draft(std::span<const DraftRequest> requests, std::uint32_t k);
    void extend(std::span<const DraftExtension> extensions);
    // Most rows of a step of so many sequences that the devices do by themselves; 0: there is none.
    std::uint32_t max_step_rows(std::uint32_t n_sequences) const;
    // Such a step. Its result is that of device().whole_steps().
    void whole_step(const WholeStepArguments &step);
    // [vocab] of logit row i of the last forward pass, valid until the next call.
    std::span<const float> logits(std::uint32_t i);

    // Several ranks meet and run there; for tests that make them fail.
    Communicator &communicator() const { return *model_->communicator; }
    RankTeam &team() const { return *team_; }

    // What every rank does between the two is recorded as one step.
    void begin_step();
    void end_step(std::uint32_t prompt_rows, std::uint32_t decode_rows);
    // The last steps of every rank.
    std::vector<std::vector<StepRecord>> recorded_steps() const;

  private:
    template <typename Arguments>
    void set(const Arguments &arguments);
    void load_drafter(const Deployment &deployment);
    void make_devices(const Deployment &deployment, const Host &host);
    void shard_weights(const Deployment &deployment, const ModelPlacement &placement,
                       const Progress &progress);
    void make_ranks(const Deployment &deployment, const ModelPlacement &placement);
    void make_team(const Host &host);

    std::shared_ptr<Model> model_;
    mutable std::mutex digests_mutex_;  // guards the next
    mutable std::optional<Digests> digests_;
    std::unique_ptr<KvMemory> memory_;
    std::unique_ptr<RankTeam> team_;  // of more than one rank
    std::vector<float> logits_;       // [vocab] of several ranks
};

}  // namespace kimi
