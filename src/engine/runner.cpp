#include "engine/runner.h"

#include <algorithm>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "kv/page_pool.h"

namespace kimi {
namespace {

// Even with a small prefill chunk a draft tree or a batch of sessions fits one pass.
constexpr std::uint32_t kMinRows = 64;

std::unique_ptr<Device> make_device(const Deployment &deployment) {
    if (deployment.backend != Deployment::Backend::cpu)
        fail(KIMI_UNSUPPORTED, "field backend: this build of libkimi has no CUDA backend");
    if (deployment.ranks > 1)
        fail(KIMI_UNSUPPORTED, "field ranks: is ", deployment.ranks, ", only 1 runs yet");
    const unsigned threads = deployment.threads > 0 ? deployment.threads : available_cores();
    return make_cpu_device(best_cpu_isa(), threads);
}

std::uint32_t context_limit(const Deployment &deployment, const ModelConfig &config) {
    if (deployment.context_limit == 0) return config.max_position;
    if (deployment.context_limit > config.max_position)
        fail(KIMI_INVALID_ARGUMENT, "field context_limit: is ", deployment.context_limit,
             ", the model's max_position_embeddings is ", config.max_position);
    return deployment.context_limit;
}

KvType kv_type(const Deployment &deployment, const ModelConfig &config) {
    switch (deployment.kv_type) {
        case Deployment::KvType::bf16:
            return KvType::bf16;
        case Deployment::KvType::f32:
            return KvType::f32;
        case Deployment::KvType::fp8:
            break;
    }
    if (config.kv_rank % kFp8Group != 0)
        fail(KIMI_UNSUPPORTED, "field kv.type: fp8 needs kv_lora_rank in groups of ", kFp8Group,
             ", it is ", config.kv_rank);
    return KvType::fp8;
}

}  // namespace

Runner::Runner(const Deployment &deployment, const Progress &progress)
    : config_(read_model_config(deployment.checkpoint + "/config.json")),
      checkpoint_(Checkpoint::open_target(deployment.checkpoint, progress)),
      weights_(load_target_weights(checkpoint_, config_,
                                   deployment.qk_latent_norm_eps.value_or(config_.rms_eps))) {
    const std::uint32_t context = kimi::context_limit(deployment, config_);
    const std::uint32_t rows = std::max(deployment.prefill_chunk, kMinRows);
    if (!deployment.drafter.empty())
        drafter_config_ = read_drafter_config(deployment.drafter + "/config.json", config_);
    device_ = make_device(deployment);
    target_ = std::make_unique<Target>(
        *device_, config_, weights_, rows, rows,
        drafter_config_ ? drafter_config_->taps : std::vector<std::uint32_t>());
    limits_ = target_->limits();
    limits_.rows = rows;
    limits_.context = context;
    limits_.kv.type = kv_type(deployment, config_);
    const std::uint64_t capacity =
        deployment.kv_capacity_tokens > 0 ? deployment.kv_capacity_tokens : context;
    limits_.kv.n_pages = static_cast<std::uint32_t>(pages_for(capacity));
    if (drafter_config_) load_drafter(deployment);
    device_->reserve(limits_);
}

Digest Runner::drafter_digest() const {
    return drafter_ ? checkpoint_digest(drafter_checkpoint_) : Digest{};
}

void Runner::load_drafter(const Deployment &deployment) {
    drafter_checkpoint_ = Checkpoint::open_drafter(deployment.drafter);
    drafter_weights_ = load_drafter_weights(drafter_checkpoint_, *drafter_config_);
    drafter_ =
        std::make_unique<Drafter>(*device_, *drafter_config_, drafter_weights_, *target_,
                                  limits_.rows, deployment.rope_attention_factor.value_or(0.0f));
    limits_.draft = drafter_->shape(deployment.draft_sessions);
    limits_.width = std::max(limits_.width, drafter_->width());
}

}  // namespace kimi
