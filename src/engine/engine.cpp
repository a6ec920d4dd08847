#include "engine/engine.h"

#include <algorithm>

#include "base/error.h"

namespace kimi {

Engine::Engine(const std::string &deployment_path, const Progress &progress)
    : deployment_(read_deployment(deployment_path)),
      runner_(deployment_, progress),
      tokenizer_(std::make_shared<const Tokenizer>(deployment_.checkpoint)),
      pool_(runner_.kv().n_pages),
      scheduler_(runner_, pool_, deployment_.prefill_chunk, deployment_.max_nodes) {
    if (static_cast<std::uint32_t>(tokenizer_->vocab_size()) > vocab())
        fail(KIMI_CORRUPT, deployment_.checkpoint, "/tiktoken.model: has ",
             tokenizer_->vocab_size(), " tokens, config.json says vocab_size ", vocab());
    for (std::uint32_t ring = runner_.n_rings(); ring-- > 0;) free_rings_.push_back(ring);
}

bool Engine::is_stop(std::int32_t token) const {
    const auto stops = tokenizer_->stop_tokens();
    return std::find(stops.begin(), stops.end(), token) != stops.end();
}

std::string_view Engine::token_text(std::int32_t token) const {
    return token < tokenizer_->vocab_size() ? tokenizer_->token_bytes(token) : std::string_view();
}

void Engine::step(std::span<Session *const> sessions) {
    const std::lock_guard lock(mutex_);
    scheduler_.step(sessions);
}

void Engine::release_pages(std::vector<std::uint32_t> &pages, std::uint64_t n_tokens) {
    const std::lock_guard lock(mutex_);
    pool_.shrink(pages, n_tokens);
}

std::optional<DraftContext> Engine::take_draft_context() {
    const std::lock_guard lock(mutex_);
    if (free_rings_.empty()) return std::nullopt;
    const DraftContext context{free_rings_.back()};
    free_rings_.pop_back();
    return context;
}

void Engine::return_draft_context(const DraftContext &context) {
    const std::lock_guard lock(mutex_);
    free_rings_.push_back(context.ring);
}

}  // namespace kimi
