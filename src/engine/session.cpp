#include "engine/session.h"

#include <algorithm>

#include "base/error.h"
#include "engine/engine.h"
#include "text/output_parser.h"

namespace kimi {

Session::Session(std::shared_ptr<Engine> engine, const SessionOptions &options)
    : engine_(std::move(engine)), options_(options), next_options_(options) {
    tokens_.reserve(engine_->context_limit());
    characters_.reserve(engine_->longest_token());
    text_.reserve((kMaxTreeNodes + 1) * engine_->longest_token() + KIMI_MAX_STOP_BYTES);
    logprobs_.reserve((kMaxTreeNodes + 1) * (KIMI_MAX_LOGPROBS + 1));
    engine_->kv()->open(kv_, engine_->context_limit() + kMaxTreeNodes);
}

Session::Session(std::shared_ptr<Engine> engine, SessionState state)
    : Session(std::move(engine), state.options) {
    next_options_ = state.next_options;
    check_tokens(state.tokens);
    if (state.tokens.size() > engine_->context_limit())
        kimi::fail(KIMI_TOO_LONG, "the session has ", state.tokens.size(),
                   " tokens, the context limit is ", engine_->context_limit());
    const std::size_t n_reply = state.tokens.size() - state.reply_begin;
    const bool fits_phase =
        state.phase == KIMI_PHASE_FINISHED || (state.phase == KIMI_PHASE_DECODE && n_reply > 0) ||
        (state.phase == KIMI_PHASE_PREFILL && n_reply == 0 && !state.tokens.empty());
    const bool failed = state.finish_reason == KIMI_FINISH_ERROR;
    const bool fits_finish =
        state.finish_reason == KIMI_FINISH_NONE ||
        (state.phase == KIMI_PHASE_FINISHED && state.finish_reason <= KIMI_FINISH_CONSTRAINT);
    const bool fits_failure =
        failed ? state.failure.status < KIMI_OK && state.failure.status >= KIMI_INTERNAL
               : state.failure.status == KIMI_OK;
    if (state.reply_begin > state.tokens.size() || !fits_phase || !fits_finish || !fits_failure)
        kimi::fail(KIMI_CORRUPT, "the session's state contradicts itself");
    tokens_.assign(state.tokens.begin(), state.tokens.end());
    reset_reply(beginning(state.rules, tokens().first(state.reply_begin)));
    reply_begin_ = state.reply_begin;
    next_rules_ = std::move(state.next_rules);
    result_.phase = state.phase;
    result_.finish_reason = state.finish_reason;
    result_.prompt_total = reply_begin_;
    // The reply's text so far was delivered; what is held back of it is not.
    if (result_.phase == KIMI_PHASE_DECODE)
        for (const std::int32_t token : tokens().subspan(reply_begin_)) take(token, true);
    text_.clear();
    failure_ = std::move(state.failure);
    events_taken_ = state.events_taken;
    if (result_.phase != KIMI_PHASE_FINISHED && tokens_left() == 0) finish(KIMI_FINISH_LENGTH);
}

Session::~Session() {
    const auto kv = engine_->kv();
    // Only a broken invariant of the KV space throws: its pages are lost, the process goes on.
    try {
        kv->keep(kv_, tokens());
    } catch (...) {
    }
    try {
        kv->close(kv_);
    } catch (...) {
    }
}

SessionState Session::state() const {
    return {options_,      next_options_,         rules_,   next_rules_,  tokens_, reply_begin_,
            result_.phase, result_.finish_reason, failure_, events_taken_};
}

std::unique_ptr<Session> Session::fork() const {
    auto copy = std::make_unique<Session>(engine_, state());
    copy->reply_start_ = reply_start_;
    engine_->kv()->fork(kv_, copy->kv_);
    copy->result_.prompt_reused = result_.prompt_reused;
    copy->update_progress();
    return copy;
}

std::unique_ptr<Session> Session::fork(const SessionOptions &options) const {
    std::unique_ptr<Session> copy = fork();
    copy->options_ = copy->next_options_ = options;
    if (copy->result_.phase == KIMI_PHASE_DECODE && copy->tokens_left() == 0)
        copy->finish(KIMI_FINISH_LENGTH);
    return copy;
}

void Session::check_tokens(std::span<const std::int32_t> tokens) const {
    const auto vocab = static_cast<std::int32_t>(engine_->vocab());
    for (std::size_t i = 0; i < tokens.size(); ++i)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            kimi::fail(KIMI_INVALID_ARGUMENT, "tokens[", i, "] is ", tokens[i],
                       ", must be from 0 to ", vocab - 1);
}

void Session::append(std::span<const std::int32_t> tokens) {
    if (tokens.empty()) kimi::fail(KIMI_INVALID_ARGUMENT, "no tokens to append");
    // One place is left for the reply.
    const std::uint64_t limit = engine_->context_limit();
    if (tokens.size() >= limit || tokens_.size() + tokens.size() >= limit)
        kimi::fail(KIMI_TOO_LONG, "the prompt would make the session ", tokens_.size(), " + ",
                   tokens.size(), " tokens long, at most ", limit - 1, " leave room for a reply");
    check_tokens(tokens);
    splice(tokens_.size(), tokens, next_rules_);
}

void Session::replace(std::span<const std::int32_t> tokens, std::vector<std::string> tools) {
    check_tokens(tokens);
    if (tokens.empty() || tokens.size() >= engine_->context_limit())
        return append(tokens);  // throws
    const auto differ =
        std::mismatch(tokens_.begin(), tokens_.end(), tokens.begin(), tokens.end()).first;
    // The last token is always processed again: its logits begin the reply.
    const auto common = std::min<std::size_t>(static_cast<std::size_t>(differ - tokens_.begin()),
                                              tokens.size() - 1);
    ReplyRules rules = next_rules_;
    rules.tools = std::move(tools);
    splice(common, tokens.subspan(common), rules);
    next_rules_ = std::move(rules);
}

void Session::truncate(std::uint64_t n) {
    if (n > tokens_.size())
        kimi::fail(KIMI_INVALID_ARGUMENT, "n is ", n, ", the session has ", tokens_.size(),
                   " tokens");
    Beginning after = beginning(rules_, tokens().first(n));
    drop(n);
    reset_reply(std::move(after));
}

void Session::splice(std::size_t keep, std::span<const std::int32_t> tokens,
                     const ReplyRules &rules) {
    std::vector<std::int32_t> prompt;
    prompt.reserve(keep + tokens.size());
    prompt.assign(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(keep));
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
    Beginning reply = beginning(rules, prompt);
    drop(keep);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    options_ = next_options_;
    reset_reply(std::move(reply));
    result_.phase = KIMI_PHASE_PREFILL;
    result_.prompt_total = reply_begin_;
    reused(kv_.n_tokens);
    ++stats_.replies;
    reply_start_ = Clock::now();
    cancelled_.store(false, std::memory_order_relaxed);
}

void Session::drop(std::size_t n) {
    if (n == tokens_.size()) return;
    const auto kv = engine_->kv();
    if (n < kv_.n_tokens) kv->keep(kv_, tokens());
    kv->truncate(kv_, static_cast<std::uint32_t>(n));
    tokens_.resize(n);
}

Session::Beginning Session::beginning(const ReplyRules &rules,
                                      std::span<const std::int32_t> prompt) const {
    Beginning out{rules, StopStrings(rules.stop_strings), {}};
    if (rules.constraint)
        out.state = rules.constraint->start(output_start(*engine_->tokenizer(), prompt).reasoning);
    return out;
}

void Session::reset_reply(Beginning &&beginning) {
    rules_ = std::move(beginning.rules);
    stop_strings_ = std::move(beginning.stop_strings);
    reply_state_ = beginning.state;
    reply_begin_ = tokens_.size();
    n_committed_ = 0;
    text_.clear();
    logprobs_.clear();
    utf8_ = Utf8Stream();
    result_ = {};
    failure_ = {};
    events_.reset();
    events_taken_ = 0;
}

bool Session::begin_step() {
    n_committed_ = 0;
    text_.clear();
    logprobs_.clear();
    result_.status = KIMI_OK;
    result_.error.clear();
    result_.draft_nodes = result_.draft_accepted = 0;
    return result_.phase != KIMI_PHASE_FINISHED && !interrupted();
}

void Session::end_step() {
    if (n_committed_ > 0) {
        const bool first = tokens_.size() == reply_begin_ + n_committed_;
        stats_.reply = std::chrono::duration<double>(Clock::now() - reply_start_).count();
        if (first) stats_.first_token = stats_.reply;
        stats_.reply_tokens += n_committed_;
    }
    if (result_.phase != KIMI_PHASE_FINISHED) interrupted();
}

bool Session::interrupted() {
    const std::chrono::milliseconds deadline(options_.deadline_ms);
    if (cancelled_.load(std::memory_order_relaxed))
        finish(KIMI_FINISH_CANCELLED);
    else if (options_.deadline_ms > 0 && Clock::now() - reply_start_ >= deadline)
        finish(KIMI_FINISH_DEADLINE);
    return result_.phase == KIMI_PHASE_FINISHED;
}

void Session::update_progress() {
    result_.prompt_done = std::min<std::uint64_t>(kv_.n_tokens, result_.prompt_total);
}

void Session::reused(std::uint64_t n_tokens) {
    result_.prompt_reused += n_tokens;
    stats_.prompt_reused += n_tokens;
    update_progress();
}

std::uint64_t Session::tokens_left() const {
    const std::uint64_t room = engine_->context_limit() - tokens_.size();
    if (options_.max_tokens == 0) return room;
    const std::uint64_t so_far = tokens_.size() - reply_begin_;
    return std::min(room,
                    options_.max_tokens - std::min<std::uint64_t>(options_.max_tokens, so_far));
}

bool Session::commit(std::int32_t token) {
    tokens_.push_back(token);
    ++n_committed_;
    result_.phase = KIMI_PHASE_DECODE;
    const bool stop = !has_text(token);
    if (take(token, !stop))
        finish(KIMI_FINISH_STOP_STRING);
    else if (stop)
        finish(has_calls(*engine_->tokenizer(), tokens().subspan(reply_begin_))
                   ? KIMI_FINISH_TOOL_CALLS
                   : KIMI_FINISH_STOP);
    else if (tokens_left() == 0)
        finish(KIMI_FINISH_LENGTH);
    return result_.phase == KIMI_PHASE_DECODE;
}

bool Session::take(std::int32_t token, bool with_text) {
    if (rules_.constraint) rules_.constraint->advance(reply_state_, token);
    if (!with_text) return false;
    characters_.clear();
    utf8_.push(engine_->token_text(token), characters_);
    return stop_strings_.push(characters_, text_);
}

bool Session::has_text(std::int32_t token) const {
    return options_.ignore_stop || !engine_->is_stop(token);
}

std::uint32_t Session::take_event() {
    try {
        const Tokenizer &tokenizer = *engine_->tokenizer();
        if (!events_)
            events_.emplace(tokenizer, output_start(tokenizer, tokens().first(reply_begin_)),
                            rules_.tools, rules_.stop_strings);
        for (const std::int32_t token : tokens().subspan(reply_begin_ + events_->n_tokens()))
            events_->push(token, has_text(token));
        if (result_.finish_reason != KIMI_FINISH_NONE) events_->finish();
        events_->skip(events_taken_);
        const std::uint32_t kind = events_->take();
        events_taken_ = events_->n_taken();
        return kind;
    } catch (...) {
        events_.reset();  // to be made again, up to events_taken_
        throw;
    }
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

void Session::fail(const Error &error) noexcept {
    const bool ends = error.status != KIMI_BUSY;
    result_.status = error.status;
    if (ends) failure_.status = error.status;
    try {
        result_.error = error.text;
        if (ends) failure_.text = error.text;
        if (ends) finish(KIMI_FINISH_ERROR);
    } catch (...) {
        // Without memory there is no text.
    }
    if (!ends) return;
    result_.phase = KIMI_PHASE_FINISHED;
    result_.finish_reason = KIMI_FINISH_ERROR;
}

void Session::finish(std::uint32_t reason) {
    if (reason != KIMI_FINISH_STOP_STRING) {
        characters_.clear();
        utf8_.flush(characters_);
        stop_strings_.push(characters_, text_);
        stop_strings_.flush(text_);
    }
    result_.phase = KIMI_PHASE_FINISHED;
    result_.finish_reason = reason;
}

}  // namespace kimi
