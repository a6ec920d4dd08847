// A loaded model: everything that its sessions share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/device.h"
#include "deploy/deployment.h"
#include "engine/plan_builder.h"
#include "engine/session.h"
#include "kv/page_pool.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/target.h"
#include "model/target_weights.h"
#include "spec/sampler.h"
#include "text/tokenizer.h"

namespace kimi {

class Engine {
  public:
    // Throws any status; the text names the file, tensor or field.
    Engine(const std::string &deployment_path, const Progress &progress);
    ~Engine();

    const std::shared_ptr<const Tokenizer> &tokenizer() const { return tokenizer_; }
    std::uint32_t vocab() const { return config_.vocab; }
    const ModelConfig &config() const { return config_; }
    const TargetWeights &weights() const { return weights_; }
    std::uint32_t context_limit() const { return context_limit_; }
    std::uint32_t max_nodes() const { return deployment_.max_nodes; }
    std::uint64_t kv_bytes_per_token() const;  // all layers
    bool is_stop(std::int32_t token) const;
    // The bytes of a token; empty where the tokenizer has none.
    std::string_view token_text(std::int32_t token) const;

    // One step of each session; the results are in the sessions. Any thread.
    void step(std::span<Session *const> sessions);
    void release_pages(std::vector<std::uint32_t> &pages, std::uint64_t n_tokens);

  private:
    // A session's part of a pass.
    struct Work {
        Session *session;
        std::uint32_t n_rows;
        bool wants_logits;
        std::uint32_t logits;
    };

    void add_work(Session &session);
    void run_pass();
    void finish_work(const Work &work);

    Deployment deployment_;
    ModelConfig config_;
    std::shared_ptr<const Tokenizer> tokenizer_;
    Checkpoint checkpoint_;
    TargetWeights weights_;
    std::uint32_t context_limit_;
    KvShape kv_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Target> target_;

    std::mutex mutex_;  // guards all below
    PagePool pool_;
    PlanBuilder plan_;
    Sampler sampler_;
    std::vector<Work> work_;
    bool broken_ = false;  // an internal error happened: no further work
};

}  // namespace kimi
