// The model on its devices: weights, buffers and KV cache, and the passes over them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backend/device.h"
#include "deploy/deployment.h"
#include "model/checkpoint.h"
#include "model/config.h"
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
    const KvShape &kv() const { return limits_.kv; }
    std::uint32_t context_limit() const { return limits_.context; }
    std::uint32_t max_rows() const { return limits_.rows; }
    Target &target() { return *target_; }
    Device &device() { return *device_; }
    Drafter *drafter() { return drafter_.get(); }  // nullptr: none
    std::uint32_t n_rings() const { return limits_.draft.n_rings; }
    std::uint32_t ring_slots() const { return limits_.draft.ring_slots; }

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
