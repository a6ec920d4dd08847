#include "engine/engine.h"

#include <algorithm>

#include "base/error.h"
#include "engine/summary.h"
#include "engine/trace.h"

namespace kimi {

Engine::Engine(const std::string &deployment_path, const Progress &progress, const Host &host)
    : host_(host),
      deployment_(read_deployment(deployment_path)),
      runner_(deployment_, progress, host_),
      tokenizer_(std::make_shared<const Tokenizer>(deployment_.checkpoint)),
      constraints_(*tokenizer_),
      kv_(runner_.memory(), runner_.limits(), host_.heap),
      scheduler_(runner_, kv_, deployment_.prefill_chunk, deployment_.max_nodes, host_.log),
      queue_([this](std::vector<Session *> &waiting, bool concurrent) {
          const std::lock_guard lock(mutex_);
          scheduler_.pass(waiting, concurrent);
      }) {
    if (static_cast<std::uint32_t>(tokenizer_->vocab_size()) > vocab())
        fail(KIMI_CORRUPT, deployment_.checkpoint, "/tiktoken.model: has ",
             tokenizer_->vocab_size(), " tokens, config.json says vocab_size ", vocab());
    for (std::int32_t token = 0; token < tokenizer_->vocab_size(); ++token)
        longest_token_ = std::max(longest_token_, tokenizer_->token_bytes(token).size());
    log_summary(host_.log, deployment_, runner_, memory_bytes());
}

bool Engine::is_stop(std::int32_t token) const {
    const auto stops = tokenizer_->stop_tokens();
    return std::find(stops.begin(), stops.end(), token) != stops.end();
}

std::string_view Engine::token_text(std::int32_t token) const {
    return token < tokenizer_->vocab_size() ? tokenizer_->token_bytes(token) : std::string_view();
}

std::string Engine::trace() {
    std::unique_lock lock(mutex_);
    const auto steps = runner_.recorded_steps();
    lock.unlock();
    return trace_json(steps, deployment_.link_gb_per_s.value_or(0));
}

SchedulerStats Engine::stats() {
    const std::lock_guard lock(mutex_);
    return scheduler_.stats();
}

}  // namespace kimi
