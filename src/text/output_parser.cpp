#include "text/output_parser.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace kimi {
namespace {

// Offsets behind the first special token, which SpecialTokens checks.
enum Marker : std::int32_t {
    kEos = 1,
    kImEnd = 2,
    kEot = 9,
    kSectionBegin = 11,
    kSectionEnd = 12,
    kCallBegin = 13,
    kArgumentBegin = 14,
    kCallEnd = 15,
    kThink = 22,
    kThinkEnd = 23,
};

constexpr std::string_view kSpelledBegin = "<|tool_call_section_begin|>";
constexpr std::string_view kSpelledEnd = "<|tool_call_section_end|>";
constexpr std::string_view kPrefix = "functions.";
constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kDigits = "0123456789";

std::string_view without_leading(std::string_view text, std::string_view characters) {
    return text.substr(std::min(text.find_first_not_of(characters), text.size()));
}
std::string_view trimmed(std::string_view text) {
    text = without_leading(text, kSpace);
    return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

// id is `name` with a number behind it and separators around it, all of them optional.
bool means(std::string_view id, std::string_view name) {
    constexpr std::string_view kSeparators = ".:_-";
    id = without_leading(id, kSeparators);
    if (!id.starts_with(name)) return false;
    id = without_leading(id.substr(name.size()), kSeparators);
    return without_leading(id, kDigits).empty();
}

std::string_view name_in(std::string_view id, const std::vector<std::string> &declared) {
    const std::string_view base = id.substr(0, id.rfind(':'));
    const std::string_view last = base.substr(base.rfind('.') + 1);
    const std::string_view all = base.starts_with(kPrefix) ? base.substr(kPrefix.size()) : base;
    for (const std::string_view name : {all, last})
        if (std::find(declared.begin(), declared.end(), name) != declared.end()) return name;
    constexpr std::string_view kWord = "functions";
    const std::string_view rest = id.starts_with(kWord) ? id.substr(kWord.size()) : id;
    std::string_view longest;
    for (const std::string &name : declared)
        if (name.size() > longest.size() && (means(id, name) || means(rest, name))) longest = name;
    return longest.empty() ? last : longest;
}

bool is_canonical(std::string_view id, std::string_view name) {
    if (!id.starts_with(kPrefix)) return false;
    id.remove_prefix(kPrefix.size());
    if (name.empty() || !id.starts_with(name)) return false;
    id.remove_prefix(name.size());
    return id.size() > 1 && id[0] == ':' && without_leading(id.substr(1), kDigits).empty();
}

}  // namespace

OutputStart output_start(const Tokenizer &tokenizer, std::span<const std::int32_t> prompt) {
    const std::int32_t first = tokenizer.stop_tokens()[0] - kImEnd;
    OutputStart start;
    for (const std::int32_t token : prompt) {
        if (!tokenizer.is_special(token)) continue;
        const std::int32_t marker = token - first;
        if (marker == kCallBegin) ++start.n_calls;
        start.reasoning = marker == kThink;
    }
    return start;
}

bool has_calls(const Tokenizer &tokenizer, std::span<const std::int32_t> reply) {
    if (output_start(tokenizer, reply).n_calls == 0) return false;
    OutputParser parser(tokenizer, {});
    std::vector<OutputEvent> events;
    parser.push(reply, events);
    return parser.n_calls() > 0;
}

std::vector<std::string> tool_names(const Json &tools) {
    std::vector<std::string> names;
    for (const Json &tool : tools.items) {
        const Json *function = tool.find("function");
        const Json *name = function == nullptr ? nullptr : function->find("name");
        if (name != nullptr && name->is(Json::Kind::string)) names.push_back(name->text);
    }
    return names;
}

OutputParser::OutputParser(const Tokenizer &tokenizer, OutputStart start,
                           std::shared_ptr<const std::vector<std::string>> names)
    : tokenizer_(&tokenizer),
      names_(names ? std::move(names) : std::make_shared<const std::vector<std::string>>()),
      place_(start.reasoning ? Place::reasoning : Place::content),
      think_open_(start.reasoning),
      next_number_(start.n_calls) {}

void OutputParser::push(std::span<const std::int32_t> tokens, Events &events) {
    for (const std::int32_t token : tokens) {
        if (token < 0 || token >= tokenizer_->vocab_size()) continue;
        if (tokenizer_->is_special(token)) {
            special(token, events);
            at_start_ = false;
        } else {
            push_text(tokenizer_->token_bytes(token), events);
        }
    }
}

void OutputParser::push_text(std::string_view bytes, Events &events) {
    utf8_.push(bytes, held_);
    release_text(events, false);
    at_start_ = false;
}

void OutputParser::finish(Events &events) {
    release_text(events, true);
    if (place_ == Place::call_arguments) events.push_back({OutputEvent::Kind::call_cut, {}});
    place_ = Place::content;
}

void OutputParser::special(std::int32_t token, Events &events) {
    switch (token - (tokenizer_->stop_tokens()[0] - kImEnd)) {
        case kEos:
        case kImEnd:
        case kEot:
            return;
        case kSectionBegin:
            leave_call(events);
            place_ = Place::section;
            return;
        case kSectionEnd:
            leave_call(events);
            if (place_ == Place::section) place_ = Place::content;
            return;
        case kCallBegin:
            leave_call(events);
            place_ = Place::call_id;
            return;
        case kArgumentBegin:
            release_text(events, true);
            if (place_ == Place::call_id) begin_call(events);
            return;
        case kCallEnd:
            leave_call(events);
            return;
        case kThink:
        case kThinkEnd:
            if (think_marker(token, events)) return;
            [[fallthrough]];
        default:
            push_text(tokenizer_->token_bytes(token), events);
    }
}

// True where the token is a marker here, not text.
bool OutputParser::think_marker(std::int32_t token, Events &events) {
    const bool in_call = place_ == Place::call_id || place_ == Place::call_arguments;
    const bool end = tokenizer_->token_bytes(token)[1] == '/';
    if (in_call || !(end ? think_open_ : at_start_)) return false;
    release_text(events, true);
    think_open_ = !end;
    if (!end) place_ = Place::reasoning;
    if (end && place_ == Place::reasoning) place_ = Place::content;
    return true;
}

// Emits held_ up to where a spelled marker may begin; all of it where nothing can follow.
void OutputParser::release_text(Events &events, bool all) {
    if (all) utf8_.flush(held_);
    if (place_ == Place::call_id) return;
    std::string_view rest = held_;
    const bool in_call = place_ == Place::call_arguments;
    for (std::size_t at = 0; !in_call && (at = rest.find('<', at)) != rest.npos;) {
        const std::string_view here = rest.substr(at);
        const bool begin = here.starts_with(kSpelledBegin);
        if (begin || here.starts_with(kSpelledEnd)) {
            emit(rest.substr(0, at), events);
            rest = here.substr((begin ? kSpelledBegin : kSpelledEnd).size());
            at = 0;
            if (begin) place_ = Place::section;
            if (!begin && place_ == Place::section) place_ = Place::content;
        } else if (!all && (kSpelledBegin.starts_with(here) || kSpelledEnd.starts_with(here))) {
            emit(rest.substr(0, at), events);
            held_.erase(0, held_.size() - here.size());
            return;
        } else {
            ++at;
        }
    }
    emit(rest, events);
    held_.clear();
}

void OutputParser::emit(std::string_view text, Events &events) {
    if (place_ == Place::section) {
        text = without_leading(text, kSpace);
        if (!text.empty()) place_ = Place::content;
    }
    if (text.empty()) return;
    const auto kind = place_ == Place::reasoning ? OutputEvent::Kind::reasoning
                      : place_ == Place::content ? OutputEvent::Kind::content
                                                 : OutputEvent::Kind::call_arguments;
    if (events.empty() || events.back().kind != kind) events.push_back({kind, {}});
    events.back().text += text;
}

void OutputParser::begin_call(Events &events) {
    const std::string_view id = trimmed(held_);
    const std::string name(name_in(id, *names_));
    events.push_back({OutputEvent::Kind::call_begin, name, unique_id(id, name)});
    held_.clear();
    place_ = Place::call_arguments;
}

// Ends the call that is open, if one is.
void OutputParser::leave_call(Events &events) {
    release_text(events, true);
    if (place_ == Place::call_id) {
        if (!trimmed(held_).empty()) begin_call(events);
        held_.clear();
    }
    if (place_ == Place::call_arguments) {
        events.push_back({OutputEvent::Kind::call_end, {}});
        ++n_calls_;
    } else if (place_ != Place::call_id) {
        return;
    }
    place_ = Place::section;
}

std::string OutputParser::unique_id(std::string_view written, std::string_view name) {
    std::string id(written);
    if (is_canonical(id, name) && ids_.insert(id).second) {
        ++next_number_;
        return id;
    }
    do {
        id = cat(kPrefix, name, ":", next_number_++);
    } while (!ids_.insert(id).second);
    return id;
}

}  // namespace kimi
