#include "engine/session.h"

#include <algorithm>

#include "base/error.h"
#include "engine/engine.h"

namespace kimi {

Session::Session(std::shared_ptr<Engine> engine, const SessionOptions &options)
    : engine_(std::move(engine)), options_(options), next_options_(options) {
    tokens_.reserve(engine_->context_limit());
    pages_.reserve(pages_for(engine_->context_limit() + kMaxTreeNodes));
    text_.reserve(4096);
    draft_context_ = engine_->take_draft_context();
}

Session::~Session() {
    drop_kv_behind(0);
    if (draft_context_) engine_->return_draft_context(*draft_context_);
}

void Session::drop_kv_behind(std::uint32_t n_tokens) {
    n_cached_ = std::min(n_cached_, n_tokens);
    if (draft_context_) {
        draft_context_->full_begin = std::min(draft_context_->full_begin, n_cached_);
        draft_context_->ring_begin = std::min(draft_context_->ring_begin, n_cached_);
    }
    engine_->release_pages(pages_, n_cached_);
}

void Session::check_tokens(std::span<const std::int32_t> tokens) const {
    const auto vocab = static_cast<std::int32_t>(engine_->vocab());
    for (std::size_t i = 0; i < tokens.size(); ++i)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            kimi::fail(KIMI_INVALID_ARGUMENT, "tokens[", i, "] is ", tokens[i],
                       ", must be from 0 to ", vocab - 1);
}

void Session::append(std::span<const std::int32_t> tokens) {
    check_tokens(tokens);
    const std::uint64_t limit = engine_->context_limit();
    if (tokens.empty()) kimi::fail(KIMI_INVALID_ARGUMENT, "no tokens to append");
    // One place is left for the reply.
    if (tokens_.size() + tokens.size() >= limit)
        kimi::fail(KIMI_TOO_LONG, "the prompt would make the session ",
                   tokens_.size() + tokens.size(), " tokens long, at most ", limit - 1,
                   " leave room for a reply");
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    start_reply();
}

void Session::replace(std::span<const std::int32_t> tokens) {
    const auto [mine, theirs] =
        std::mismatch(tokens_.begin(), tokens_.end(), tokens.begin(), tokens.end());
    // The last token is always processed again: its logits begin the reply.
    const auto common = std::min<std::size_t>(static_cast<std::size_t>(mine - tokens_.begin()),
                                              tokens.empty() ? 0 : tokens.size() - 1);
    const std::vector<std::int32_t> before(tokens_.begin() + static_cast<std::ptrdiff_t>(common),
                                           tokens_.end());
    tokens_.resize(common);
    try {
        append(tokens.subspan(common));
    } catch (...) {
        tokens_.insert(tokens_.end(), before.begin(), before.end());
        throw;
    }
    drop_kv_behind(static_cast<std::uint32_t>(common));
    result_.prompt_done = n_cached_;
}

void Session::start_reply() {
    options_ = next_options_;
    reply_begin_ = tokens_.size();
    n_committed_ = 0;
    text_.clear();
    utf8_ = Utf8Stream();
    result_ = {};
    result_.phase = KIMI_PHASE_PREFILL;
    result_.prompt_done = n_cached_;
    result_.prompt_total = reply_begin_;
    cancelled_.store(false, std::memory_order_relaxed);
}

bool Session::begin_step() {
    n_committed_ = 0;
    text_.clear();
    result_.status = KIMI_OK;
    result_.error.clear();
    result_.draft_nodes = result_.draft_accepted = 0;
    if (result_.phase == KIMI_PHASE_FINISHED) return false;
    if (cancelled_.load(std::memory_order_relaxed)) {
        finish(KIMI_FINISH_CANCELLED);
        return false;
    }
    return true;
}

void Session::processed(std::uint32_t n) {
    n_cached_ += n;
    result_.prompt_done = std::min<std::uint64_t>(n_cached_, result_.prompt_total);
}

std::uint64_t Session::tokens_left() const {
    const std::uint64_t room = engine_->context_limit() - tokens_.size();
    if (options_.max_tokens == 0) return room;
    return std::min(room, options_.max_tokens - (tokens_.size() - reply_begin_));
}

bool Session::commit(std::int32_t token) {
    tokens_.push_back(token);
    ++n_committed_;
    result_.phase = KIMI_PHASE_DECODE;
    const bool stop = !options_.ignore_stop && engine_->is_stop(token);
    if (!stop) utf8_.push(engine_->token_text(token), text_);
    if (stop || tokens_left() == 0) finish(stop ? KIMI_FINISH_STOP : KIMI_FINISH_LENGTH);
    return result_.phase == KIMI_PHASE_DECODE;
}

void Session::drafted(const DraftTree &tree, std::uint32_t n_accepted) {
    result_.draft_nodes = tree.n;
    result_.draft_accepted = n_accepted;
    ++stats_.steps;
    stats_.drafted += tree.n;
    stats_.accepted += n_accepted;
    std::uint32_t deepest = 0;
    for (std::uint32_t i = 0; i < tree.n; ++i)
        deepest = std::max<std::uint32_t>(deepest, tree.depth[i]);
    for (std::uint32_t d = 0; d < deepest; ++d) ++stats_.offered[d];
    for (std::uint32_t d = 0; d < n_accepted; ++d) ++stats_.accepted_at[d];
}

void Session::fail(kimi_status status, std::string text) {
    result_.status = status;
    result_.error = std::move(text);
    if (status != KIMI_BUSY) finish(KIMI_FINISH_ERROR);
}

void Session::finish(std::uint32_t reason) {
    utf8_.flush(text_);
    result_.phase = KIMI_PHASE_FINISHED;
    result_.finish_reason = reason;
}

}  // namespace kimi
