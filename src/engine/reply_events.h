// The events of a reply, as its reader takes them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_parser.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace kimi {

// Tokens go in one at a time and are cut into the smallest events there are. The number of those
// that were taken says where the reader is, however the tokens came. May be copied.
class ReplyEvents {
  public:
    // The tokenizer must outlive it. names: of the declared functions.
    ReplyEvents(const Tokenizer &tokenizer, OutputStart start, std::vector<std::string> names,
                std::vector<std::string> stop_strings);

    // The reply's next token. Without a text it counts and does nothing: the stop token.
    void push(std::int32_t token, bool has_text);
    std::size_t n_tokens() const { return n_tokens_; }
    // The reply is over. May be repeated.
    void finish();

    // Takes the next event, a text with what is known of it: KIMI_EVENT_*, KIMI_EVENT_NONE where
    // there is none.
    std::uint32_t take();
    // Of the event taken last: its text, of KIMI_EVENT_CALL all arguments.
    const std::string &text() const { return text_; }
    // Of the call whose event was taken last.
    const std::string &call_id() const { return call_id_; }
    const std::string &call_name() const { return call_name_; }
    std::uint32_t call_index() const { return n_begun_ - 1; }
    // Complete calls so far.
    std::uint32_t n_calls() const { return parser_.n_calls(); }

    std::uint64_t n_taken() const { return n_taken_; }
    // Takes events until n were.
    void skip(std::uint64_t n);

  private:
    struct Event {
        std::uint32_t kind;
        std::string text, id;
    };
    // A piece of the reply that may be part of a stop string.
    struct Piece {
        std::int32_t special;  // or kText
        std::string text;
    };
    static constexpr std::int32_t kText = -1;

    void hold(std::int32_t special, std::string_view text);
    void release();
    void add(std::vector<OutputEvent> events);
    std::uint32_t take_one();

    const Tokenizer *tokenizer_;
    OutputParser parser_;
    StopStrings stop_strings_;
    Utf8Stream utf8_;
    std::deque<Piece> held_;
    std::size_t n_free_ = 0;  // bytes at the beginning of held_ that are in no stop string
    bool stopped_ = false;    // a stop string ended
    bool finished_ = false;
    std::size_t n_tokens_ = 0;

    std::deque<Event> waiting_;
    std::uint64_t n_taken_ = 0;
    std::string text_, arguments_, call_id_, call_name_;
    std::uint32_t n_begun_ = 0;  // calls
};

}  // namespace kimi
