// A reply's tokens as events: reasoning, content and tool calls.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace kimi {

struct OutputEvent {
    enum class Kind : std::uint8_t {
        reasoning,       // text
        content,         // text
        call_begin,      // text is the function's name, id the call's
        call_arguments,  // text
        call_end,        // the call is complete
        call_cut,        // the reply ended inside the arguments
    };
    Kind kind;
    std::string text;  // whole UTF-8 characters
    std::string id = {};

    bool operator==(const OutputEvent &) const = default;
};

// What a prompt says about the reply that follows it.
struct OutputStart {
    bool reasoning = false;     // it ends inside an open <think>
    std::uint64_t n_calls = 0;  // tool calls in it
};
OutputStart output_start(const Tokenizer &tokenizer, std::span<const std::int32_t> prompt);

// The reply has a complete tool call.
bool has_calls(const Tokenizer &tokenizer, std::span<const std::int32_t> reply);

// The names of the functions in the tools of a chat request.
std::vector<std::string> tool_names(const Json &tools);

// Markers are token ids, so text that spells one stays text. However the tokens are grouped, and
// whatever a model writes, pushing them to one vector gives the same events:
//   - Reasoning ends at </think>, or where a tool section or call begins. <think> opens it only as
//     the first token of a reply.
//   - White space in a tool section is dropped; other text there, and all text behind it, is
//     content. <|tool_call_section_begin|> and ..._end|>, which the vocabulary lacks, count as
//     section markers where they are spelled out, except inside calls.
//   - A call ends at <|tool_call_end|>, and also where the next call or the section's border comes
//     first. A call of which no complete id arrived is dropped.
//   - Its name is what stands between the id's last . and last : (functions.NAME:N), or the
//     declared tool which the id means: NAME:0, functionsNAME0, functions_NAME_1. It may be a name
//     that is not declared, or empty.
//   - Its id is the one that was written if that is functions.NAME:N and new in this reply;
//     otherwise N is the call's place in the conversation or the next number that is free.
//   - Tool markers elsewhere, stop tokens and ids outside the vocabulary are skipped; other special
//     tokens are text.
// A copy continues on its own. Throws nothing but std::bad_alloc.
class OutputParser {
  public:
    // The tokenizer must outlive the parser. Null names are as good as none.
    OutputParser(const Tokenizer &tokenizer, OutputStart start,
                 std::shared_ptr<const std::vector<std::string>> names = nullptr);

    // Appends events. Text joins the last event where that is of the same kind.
    void push(std::span<const std::int32_t> tokens, std::vector<OutputEvent> &events);
    // The same for the bytes of a token that is not special, or of a part of it.
    void push_text(std::string_view bytes, std::vector<OutputEvent> &events);
    // The reply is over: gives what was held back. Nothing may be pushed afterwards.
    void finish(std::vector<OutputEvent> &events);

    // Complete calls so far.
    std::uint32_t n_calls() const { return n_calls_; }

  private:
    using Events = std::vector<OutputEvent>;
    enum class Place : std::uint8_t { reasoning, content, section, call_id, call_arguments };

    void special(std::int32_t token, Events &events);
    bool think_marker(std::int32_t token, Events &events);
    void release_text(Events &events, bool all);
    void emit(std::string_view text, Events &events);
    void begin_call(Events &events);
    void leave_call(Events &events);
    std::string unique_id(std::string_view written, std::string_view name);

    const Tokenizer *tokenizer_;
    std::shared_ptr<const std::vector<std::string>> names_;
    Place place_;
    bool at_start_ = true;  // no token came yet
    bool think_open_;       // no </think> came yet
    Utf8Stream utf8_;
    std::string held_;  // text that may begin a spelled marker; in call_id, the id
    std::unordered_set<std::string> ids_;
    std::uint64_t next_number_;
    std::uint32_t n_calls_ = 0;
};

}  // namespace kimi
