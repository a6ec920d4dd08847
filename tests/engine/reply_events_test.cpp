#include "engine/reply_events.h"

#include "engine/session_file.h"
#include "engine/sessions.h"
#include "kimi/kimi.h"
#include "text/fixtures.h"

using namespace kimi;

namespace {

using test::Tokens;

struct Event {
    std::uint32_t kind;
    std::string text, id, name;

    bool operator==(const Event &) const = default;
};

bool is_text(std::uint32_t kind) {
    return kind == KIMI_EVENT_REASONING || kind == KIMI_EVENT_CONTENT ||
           kind == KIMI_EVENT_CALL_ARGUMENTS;
}

// Takes what there is; text joins the text before it.
void take_all(ReplyEvents &events, std::vector<Event> &out) {
    for (std::uint32_t kind; (kind = events.take()) != KIMI_EVENT_NONE;) {
        CHECK(find_invalid_utf8(events.text()) == std::string::npos);
        if (is_text(kind)) CHECK(!events.text().empty());
        if (!is_text(kind) && kind != KIMI_EVENT_CALL) CHECK(events.text().empty());
        if (is_text(kind) && !out.empty() && out.back().kind == kind)
            out.back().text += events.text();
        else
            out.push_back({kind, events.text(), events.call_id(), events.call_name()});
    }
}

// What the parser says of the tokens, as the events that a reader gets.
std::vector<Event> parsed(const Tokens &tokens, OutputStart start) {
    OutputParser parser(test::k26(), start);
    std::vector<OutputEvent> pieces;
    parser.push(tokens, pieces);
    parser.finish(pieces);
    std::vector<Event> out;
    std::string id, name, arguments;
    for (const OutputEvent &piece : pieces) {
        using Kind = OutputEvent::Kind;
        if (piece.kind == Kind::call_begin) id = piece.id, name = piece.text, arguments.clear();
        if (piece.kind == Kind::call_arguments) arguments += piece.text;
        if (piece.kind == Kind::reasoning)
            out.push_back({KIMI_EVENT_REASONING, piece.text, id, name});
        else if (piece.kind == Kind::content)
            out.push_back({KIMI_EVENT_CONTENT, piece.text, id, name});
        else if (piece.kind == Kind::call_begin)
            out.push_back({KIMI_EVENT_CALL_BEGIN, "", id, name});
        else if (piece.kind == Kind::call_arguments)
            out.push_back({KIMI_EVENT_CALL_ARGUMENTS, piece.text, id, name});
        else if (piece.kind == Kind::call_end)
            out.push_back({KIMI_EVENT_CALL, arguments, id, name});
    }
    out.push_back({KIMI_EVENT_FINISHED, "", id, name});
    return out;
}

// The tokens that stand before the first of the strings, of the one that it begins in the bytes
// before it; found in the whole text.
Tokens before_stop(const Tokens &tokens, const std::vector<std::string> &stops) {
    const std::string text = test::k26().decode(tokens);
    std::size_t cut = text.size();
    for (std::size_t end = 1, longest = 0; end <= text.size() && longest == 0; ++end) {
        for (const std::string &stop : stops)
            if (std::string_view(text).substr(0, end).ends_with(stop))
                longest = std::max(longest, stop.size());
        if (longest > 0) cut = end - longest;
    }
    Tokens out;
    std::size_t at = 0;
    for (const std::int32_t token : tokens) {
        const std::string_view bytes = test::k26().token_bytes(token);
        const std::size_t n = std::min(bytes.size(), cut - at);
        if (n == bytes.size())
            out.push_back(token);
        else if (!test::k26().is_special(token))
            for (const std::int32_t byte : test::bytes_of(bytes.substr(0, n))) out.push_back(byte);
        if (n < bytes.size()) break;
        at += n;
    }
    return out;
}

struct RandomReply {
    Tokens tokens;
    OutputStart start;
    std::vector<std::string> stops;

    explicit RandomReply(test::Random &random) {
        constexpr std::string_view kParts[] = {"<|tool_calls_section_begin|>",
                                               "<|tool_calls_section_end|>",
                                               "<|tool_call_begin|>functions.f:0",
                                               "<|tool_call_argument_begin|>",
                                               "<|tool_call_end|>",
                                               "</think>",
                                               "<|tool_call_section_begin|>",
                                               "<|tool_call_sec",
                                               " ",
                                               "Hello, 世界 😀!",
                                               "{\"a\": 1}",
                                               "é<"};
        constexpr std::string_view kStops[] = {"世界", "think>", "o, ", "<|tool_call",
                                               "1}",   "x",      "é",   ":0<|tool_call_end|>é"};
        start.reasoning = test::below(random, 2) == 0;
        for (std::size_t n = test::below(random, 14); n > 0; --n) {
            const std::string_view part = kParts[test::below(random, std::size(kParts))];
            const Tokens more = part[0] != '<' && test::below(random, 2) == 0
                                    ? test::bytes_of(part)
                                    : test::k26().encode(part, true);
            tokens.insert(tokens.end(), more.begin(), more.end());
        }
        for (std::size_t n = test::below(random, 4); n > 0; --n)
            stops.emplace_back(kStops[test::below(random, std::size(kStops))]);
    }
    ReplyEvents events() const { return {test::k26(), start, {}, stops}; }
};

std::string text_of(const std::vector<Event> &events) {
    std::string text;
    for (const Event &event : events) text += cat(event.kind, "(", event.text, ") ");
    return text;
}

}  // namespace

TEST_CASE("reply events: those of what stands before a stop string, whenever they are taken") {
    test::Random random(11);
    std::size_t n_stopped = 0;
    for (int round = 0; round < 3000; ++round) {
        const RandomReply reply(random);
        const Tokens kept = before_stop(reply.tokens, reply.stops);
        n_stopped += kept != reply.tokens;
        const std::vector<Event> expected = parsed(kept, reply.start);
        CAPTURE(test::k26().decode(reply.tokens));
        for (const std::size_t often : {1, 4, 1000}) {
            ReplyEvents events = reply.events();
            std::vector<Event> got;
            for (const std::int32_t token : reply.tokens) {
                events.push(token, true);
                if (test::below(random, often) == 0) take_all(events, got);
            }
            events.finish();
            take_all(events, got);
            CHECK(text_of(got) == text_of(expected));
            CHECK(got == expected);
        }
    }
    CHECK(n_stopped > 500);
}

TEST_CASE("reply events: the number of those taken is a place to go on from") {
    test::Random random(12);
    for (int round = 0; round < 500; ++round) {
        const RandomReply reply(random);
        CAPTURE(test::k26().decode(reply.tokens));
        ReplyEvents events = reply.events();
        const std::size_t seen = test::below(random, reply.tokens.size() + 1);
        for (std::size_t i = 0; i < seen; ++i) events.push(reply.tokens[i], true);
        for (std::size_t n = test::below(random, 9); n > 0; --n) events.take();

        ReplyEvents again = reply.events();
        for (const std::int32_t token : reply.tokens) again.push(token, true);
        for (std::size_t i = seen; i < reply.tokens.size(); ++i) events.push(reply.tokens[i], true);
        events.finish();
        again.finish();
        again.skip(events.n_taken());
        CHECK(again.n_taken() == events.n_taken());
        std::vector<Event> rest, same;
        take_all(events, rest);
        take_all(again, same);
        CHECK(same == rest);
    }
}

TEST_CASE("reply events: a session knows the tools of its chat, also when it is copied") {
    const auto engine = test::nano_engine();
    const Tokenizer &tokenizer = *engine->tokenizer();
    SessionState state;
    state.tokens = tokenizer.encode("<|im_user|>user<|im_middle|>?<|im_end|><think>", true);
    state.reply_begin = state.tokens.size();
    const Tokens reply = tokenizer.encode(
        "<|tool_call_begin|>functions_get_time_7<|tool_call_argument_begin|>{}<|tool_call_end|>",
        true);
    state.tokens.insert(state.tokens.end(), reply.begin(), reply.end());
    state.finish_reason = KIMI_FINISH_TOOL_CALLS;
    state.rules.tools = {"get", "get_time"};
    Session session(engine, state);
    std::vector<std::byte> saved;
    save_session(session, [&](const void *data, std::size_t n) {
        const auto *bytes = static_cast<const std::byte *>(data);
        saved.insert(saved.end(), bytes, bytes + n);
    });
    const auto fork = session.fork(), restored = restore_session(engine, saved, false);
    for (Session *copy : {&session, fork.get(), restored.get()}) {
        Session &reader = *copy;
        CHECK(reader.take_event() == KIMI_EVENT_CALL_BEGIN);
        CHECK(reader.events().call_name() == "get_time");
        CHECK(reader.events().call_id() == "functions.get_time:0");
        CHECK(reader.take_event() == KIMI_EVENT_CALL_ARGUMENTS);
        CHECK(reader.take_event() == KIMI_EVENT_CALL);
        CHECK(reader.events().text() == "{}");
        CHECK(reader.fork()->take_event() == KIMI_EVENT_FINISHED);
        CHECK(reader.take_event() == KIMI_EVENT_FINISHED);
        CHECK(reader.fork()->take_event() == KIMI_EVENT_NONE);
        CHECK(reader.take_event() == KIMI_EVENT_NONE);
    }
}

TEST_CASE("reply events: an end that contradicts itself is refused") {
    const auto engine = test::nano_engine();
    const auto refused = [&](std::uint32_t phase, std::uint32_t reason, kimi_status failure) {
        SessionState state;
        state.tokens = {300, 301};
        state.reply_begin = 1;
        state.phase = phase;
        state.finish_reason = reason;
        state.failure.status = failure;
        return test::error_of([&] { Session(engine, state); }).status == KIMI_CORRUPT;
    };
    CHECK(refused(KIMI_PHASE_DECODE, KIMI_FINISH_STOP, KIMI_OK));
    CHECK(refused(KIMI_PHASE_FINISHED, KIMI_FINISH_ERROR, KIMI_OK));
    CHECK(refused(KIMI_PHASE_FINISHED, KIMI_FINISH_STOP, KIMI_NUMERIC));
}
