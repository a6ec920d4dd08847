// A loaded model: everything that its sessions share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "constraint/constraint_cache.h"
#include "deploy/deployment.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "engine/session.h"
#include "engine/step_queue.h"
#include "kv/kv_space.h"
#include "text/tokenizer.h"

namespace kimi {

class Engine {
  public:
    // Throws any status; the text names the file, tensor or field.
    Engine(const std::string &deployment_path, const Progress &progress, const Host &host = {});

    const std::shared_ptr<const Tokenizer> &tokenizer() const { return tokenizer_; }
    const Runner &runner() const { return runner_; }
    std::uint32_t vocab() const { return runner_.config().vocab; }
    std::uint32_t context_limit() const { return runner_.context_limit(); }
    bool is_stop(std::int32_t token) const;
    // The bytes of a token; empty where the tokenizer has none.
    std::string_view token_text(std::int32_t token) const;
    std::size_t longest_token() const { return longest_token_; }  // bytes

    ConstraintCache &constraints() { return constraints_; }

    // One step of each session, computed together with what other threads ask for; the results are
    // in the sessions. Any thread.
    void step(std::span<Session *const> sessions) { queue_.step(sessions); }
    // For steps in the background.
    StepQueue &queue() { return queue_; }
    // Waits for a running pass. Any thread.
    SchedulerStats stats();
    // The last steps as a trace (engine/trace.h). Waits for a running pass. Any thread.
    std::string trace();
    // Reserved for KV and buffers.
    std::uint64_t memory_bytes() const { return host_.heap.bytes(); }

    // The KV memory, for as long as the returned object lives. Any thread.
    class LockedKv {
      public:
        LockedKv(std::mutex &mutex, KvSpace &kv) : lock_(mutex), kv_(kv) {}
        KvSpace *operator->() const { return &kv_; }

      private:
        std::unique_lock<std::mutex> lock_;
        KvSpace &kv_;
    };
    LockedKv kv() { return {mutex_, kv_}; }

  private:
    Host host_;
    Deployment deployment_;
    Runner runner_;
    std::shared_ptr<const Tokenizer> tokenizer_;
    ConstraintCache constraints_;
    std::size_t longest_token_ = 0;

    std::mutex mutex_;  // guards all below
    KvSpace kv_;
    Scheduler scheduler_;

    StepQueue queue_;
};

}  // namespace kimi
