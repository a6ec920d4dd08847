#include "engine/reply_events.h"

#include <algorithm>
#include <utility>

#include "kimi/kimi.h"

namespace kimi {
namespace {

std::uint32_t public_kind(OutputEvent::Kind kind) {
    switch (kind) {
        case OutputEvent::Kind::reasoning:
            return KIMI_EVENT_REASONING;
        case OutputEvent::Kind::content:
            return KIMI_EVENT_CONTENT;
        case OutputEvent::Kind::call_begin:
            return KIMI_EVENT_CALL_BEGIN;
        case OutputEvent::Kind::call_arguments:
            return KIMI_EVENT_CALL_ARGUMENTS;
        case OutputEvent::Kind::call_end:
            return KIMI_EVENT_CALL;
        case OutputEvent::Kind::call_cut:
            break;
    }
    return KIMI_EVENT_NONE;
}

bool is_text(std::uint32_t kind) {
    return kind == KIMI_EVENT_REASONING || kind == KIMI_EVENT_CONTENT ||
           kind == KIMI_EVENT_CALL_ARGUMENTS;
}

}  // namespace

ReplyEvents::ReplyEvents(const Tokenizer &tokenizer, OutputStart start,
                         std::vector<std::string> names, std::vector<std::string> stop_strings)
    : tokenizer_(&tokenizer),
      parser_(tokenizer, start, std::make_shared<const std::vector<std::string>>(std::move(names))),
      stop_strings_(std::move(stop_strings)) {}

void ReplyEvents::push(std::int32_t token, bool has_text) {
    ++n_tokens_;
    if (!has_text || token >= tokenizer_->vocab_size()) return;
    const bool special = tokenizer_->is_special(token);
    std::string text;
    special ? utf8_.flush(text) : utf8_.push(tokenizer_->token_bytes(token), text);
    hold(kText, text);
    if (special) hold(token, tokenizer_->token_bytes(token));
}

void ReplyEvents::finish() {
    if (std::exchange(finished_, true)) return;
    if (!stopped_) {
        std::string text, rest;
        utf8_.flush(text);
        hold(kText, text);
        stop_strings_.flush(rest);
        n_free_ += rest.size();
        release();
    }
    std::vector<OutputEvent> events;
    parser_.finish(events);
    add(std::move(events));
    waiting_.push_back({KIMI_EVENT_FINISHED, {}, {}});
}

void ReplyEvents::hold(std::int32_t special, std::string_view text) {
    if (text.empty() || stopped_) return;
    held_.push_back({special, std::string(text)});
    std::string free;
    stopped_ = stop_strings_.push(text, free);
    n_free_ += free.size();
    release();
}

// Gives the parser what can no longer be part of a stop string; of the piece that one begins in,
// what stands before it.
void ReplyEvents::release() {
    while (!held_.empty() && (n_free_ >= held_.front().text.size() || stopped_)) {
        Piece &piece = held_.front();
        const std::size_t n = std::min(n_free_, piece.text.size());
        std::vector<OutputEvent> events;
        if (piece.special == kText)
            parser_.push_text(std::string_view(piece.text).substr(0, n), events);
        else if (n == piece.text.size())
            parser_.push({&piece.special, 1}, events);
        add(std::move(events));
        n_free_ -= n;
        held_.pop_front();
    }
}

void ReplyEvents::add(std::vector<OutputEvent> events) {
    for (OutputEvent &event : events) {
        const std::uint32_t kind = public_kind(event.kind);
        if (kind != KIMI_EVENT_NONE)
            waiting_.push_back({kind, std::move(event.text), std::move(event.id)});
    }
}

std::uint32_t ReplyEvents::take() {
    text_.clear();
    const std::uint32_t kind = take_one();
    while (is_text(kind) && !waiting_.empty() && waiting_.front().kind == kind) take_one();
    return kind;
}

std::uint32_t ReplyEvents::take_one() {
    if (waiting_.empty()) return KIMI_EVENT_NONE;
    const Event event = std::move(waiting_.front());
    waiting_.pop_front();
    ++n_taken_;
    if (is_text(event.kind)) text_ += event.text;
    if (event.kind == KIMI_EVENT_CALL_BEGIN) {
        call_name_ = event.text;
        call_id_ = event.id;
        arguments_.clear();
        ++n_begun_;
    }
    if (event.kind == KIMI_EVENT_CALL_ARGUMENTS) arguments_ += event.text;
    if (event.kind == KIMI_EVENT_CALL) text_ = arguments_;
    return event.kind;
}

void ReplyEvents::skip(std::uint64_t n) {
    while (n_taken_ < n && take_one() != KIMI_EVENT_NONE) {
    }
    text_.clear();
}

}  // namespace kimi
