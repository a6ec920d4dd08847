// The model on its devices: weights, buffers and KV cache, and the passes over them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/device.h"
#include "deploy/deployment.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/digest.h"
#include "model/drafter.h"
#include "model/target.h"

namespace kimi {

class Runner {
  public:
    // Opens the checkpoints and reserves all memory. Throws any status; the text names the file,
    // tensor or field.
    Runner(const Deployment &deployment, const Progress &progress);

    const ModelConfig &config() const { return config_; }
    const TargetWeights &weights() const { return weights_; }
    // Of the checkpoints; the drafter's is zero where there is none.
    Digest target_digest() const { return checkpoint_digest(checkpoint_); }
    Digest drafter_digest() const;
    // What the drafter's rope is multiplied by.
    float rope_attention_factor() const { return drafter_ ? drafter_->rope_amplitude() : 0; }
    const DeviceLimits &limits() const { return limits_; }
    const KvShape &kv() const { return limits_.kv; }
    std::uint32_t context_limit() const { return limits_.context; }
    std::uint32_t max_rows() const { return limits_.rows; }
    Target &target() { return *target_; }
    Device &device() const { return *device_; }
    Drafter *drafter() { return drafter_.get(); }  // nullptr: none

    // What every rank does between the two is recorded as one step.
    void begin_step() { device_->recorder().begin(); }
    void end_step(std::uint32_t prompt_rows, std::uint32_t decode_rows) {
        device_->recorder().end(prompt_rows, decode_rows);
    }
    // The last steps of every rank.
    std::vector<std::vector<StepRecord>> recorded_steps() const {
        return {device_->recorder().steps()};
    }

  private:
    void load_drafter(const Deployment &deployment);

    ModelConfig config_;
    Checkpoint checkpoint_;
    TargetWeights weights_;
    std::optional<DrafterConfig> drafter_config_;
    Checkpoint drafter_checkpoint_;
    DrafterWeights drafter_weights_;
    DeviceLimits limits_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Target> target_;
    std::unique_ptr<Drafter> drafter_;
};

}  // namespace kimi
