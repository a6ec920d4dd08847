// A loaded model: everything that its sessions share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "deploy/deployment.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "engine/session.h"
#include "kv/page_pool.h"
#include "text/tokenizer.h"

namespace kimi {

class Engine {
  public:
    // Throws any status; the text names the file, tensor or field.
    Engine(const std::string &deployment_path, const Progress &progress);

    const std::shared_ptr<const Tokenizer> &tokenizer() const { return tokenizer_; }
    const Runner &runner() const { return runner_; }
    std::uint32_t vocab() const { return runner_.config().vocab; }
    std::uint32_t context_limit() const { return runner_.context_limit(); }
    bool is_stop(std::int32_t token) const;
    // The bytes of a token; empty where the tokenizer has none.
    std::string_view token_text(std::int32_t token) const;

    // One step of each session; the results are in the sessions. Any thread.
    void step(std::span<Session *const> sessions);

    // For sessions. Any thread.
    void release_pages(std::vector<std::uint32_t> &pages, std::uint64_t n_tokens);
    // Nothing where there is no drafter, or too many sessions already draft.
    std::optional<DraftContext> take_draft_context();
    void return_draft_context(const DraftContext &context);

  private:
    Deployment deployment_;
    Runner runner_;
    std::shared_ptr<const Tokenizer> tokenizer_;

    std::mutex mutex_;  // guards all below
    PagePool pool_;
    std::vector<std::uint32_t> free_rings_;
    Scheduler scheduler_;
};

}  // namespace kimi
