// A reply's events: reasoning, content, tool calls and the end.
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "capi/client.h"
#include "capi/fixtures.h"
#include "capi/goldens.h"
#include "text/utf8.h"

namespace {

using kimi::test::GoldenReply;

struct Event {
    uint32_t kind;
    std::string text, id, name;

    bool operator==(const Event &) const = default;
};

// What a reader has seen: events, text joined by kind, and the end.
struct Seen {
    std::vector<Event> events;
    kimi_event end{};

    bool ended() const { return end.kind == KIMI_EVENT_FINISHED; }
    std::string text() const {
        std::string out;
        for (const Event &e : events) out += kimi::cat(e.kind, '(', e.text, ',', e.id, ") ");
        return out;
    }
};

bool is_piece(uint32_t kind) {
    return kind == KIMI_EVENT_REASONING || kind == KIMI_EVENT_CONTENT ||
           kind == KIMI_EVENT_CALL_ARGUMENTS;
}

kimi_event new_event() {
    kimi_event event;
    kimi_event_init(&event);
    return event;
}

void add(const kimi_event &event, Seen &seen) {
    const auto string = [](const char *text, size_t n) {
        return n == 0 ? "" : std::string(text, n);
    };
    const Event e{event.kind, string(event.text, event.text_len), string(event.id, event.id_len),
                  string(event.name, event.name_len)};
    CHECK(kimi::find_invalid_utf8(e.text) == std::string::npos);
    CHECK(event.finish_reason == KIMI_FINISH_NONE);
    if (is_piece(e.kind)) CHECK(!e.text.empty());
    if (is_piece(e.kind) && !seen.events.empty() && seen.events.back().kind == e.kind)
        seen.events.back().text += e.text;
    else
        seen.events.push_back(e);
}

// Takes one event; false where there is none. expected: how the reply ends.
bool take(kimi_session *session, uint32_t flags, Seen &seen, kimi_status expected = KIMI_OK) {
    kimi_event event = new_event();
    client::ErrorRecord error;
    const kimi_status status = kimi_session_next_event(session, flags, &event, &error);
    INFO(error.message);
    REQUIRE(status == (event.kind == KIMI_EVENT_FINISHED ? expected : KIMI_OK));
    if (event.kind == KIMI_EVENT_NONE) return false;
    REQUIRE(!seen.ended());
    if (event.kind != KIMI_EVENT_FINISHED) {
        add(event, seen);
    } else {
        CHECK(event.status == expected);
        seen.end = event;
    }
    return true;
}

Seen rest(kimi_session *session, Seen seen = {}, kimi_status expected = KIMI_OK) {
    while (take(session, 0, seen, expected)) {
    }
    CHECK(seen.ended());
    CHECK(!take(session, 0, seen));
    return seen;
}

std::string cut(std::string &text, const std::string &end) {
    const std::size_t at = std::min(text.find(end), text.size());
    const std::string part = text.substr(0, at);
    text.erase(0, at == text.size() ? at : at + end.size());
    return part;
}

// The events of a reply whose markers are in order, from its text.
std::vector<Event> naive(std::string text, bool reasoning) {
    std::vector<Event> events;
    const auto add = [&](uint32_t kind, const std::string &part) {
        if (!part.empty()) events.push_back({kind, part, "", ""});
    };
    if (reasoning) add(KIMI_EVENT_REASONING, cut(text, "</think>"));
    std::string calls = text;
    add(KIMI_EVENT_CONTENT, cut(calls, "<|tool_calls_section_begin|>"));
    while (calls.starts_with("<|tool_call_begin|>")) {
        cut(calls, "<|tool_call_begin|>");
        const std::string id = cut(calls, "<|tool_call_argument_begin|>");
        const std::string name = id.substr(10, id.find(':') - 10);
        const std::string arguments = cut(calls, "<|tool_call_end|>");
        events.push_back({KIMI_EVENT_CALL_BEGIN, "", id, name});
        events.push_back({KIMI_EVENT_CALL_ARGUMENTS, arguments, id, name});
        events.push_back({KIMI_EVENT_CALL, arguments, id, name});
    }
    return events;
}

std::vector<Event> expected_of(const GoldenReply &golden) {
    std::string reply = golden.reply;
    reply = cut(reply, "<|im_end|>");
    return naive(reply, golden.text.ends_with("<think>"));
}

std::size_t calls_of(const std::vector<Event> &events) {
    return static_cast<std::size_t>(std::count_if(
        events.begin(), events.end(), [](const Event &e) { return e.kind == KIMI_EVENT_CALL; }));
}

void append_chat(kimi_session *session, const std::string &json) {
    client::ErrorRecord error;
    const kimi_status status = kimi_session_append_chat(session, json.data(), json.size(), &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
}

kimi_session_options drafting(uint32_t budget, uint32_t mode = KIMI_DRAFT_TREE) {
    kimi_session_options options = client::greedy();
    options.draft_budget = budget;
    options.draft_mode = mode;
    return options;
}

client::Session copy_of(kimi_session *session, bool saved, kimi_engine *engine) {
    kimi_session *copy = nullptr;
    if (!saved) {
        REQUIRE(kimi_session_fork(session, nullptr, &copy, nullptr) == KIMI_OK);
        return client::Session(copy);
    }
    size_t n = 0;
    kimi_session_save_buffer(session, nullptr, 0, &n, nullptr);
    std::vector<char> bytes(n);
    REQUIRE(kimi_session_save_buffer(session, bytes.data(), n, &n, nullptr) == KIMI_OK);
    REQUIRE(kimi_session_restore_buffer(engine, bytes.data(), n, 0, &copy, nullptr) == KIMI_OK);
    return client::Session(copy);
}

void set_stop(kimi_session *session, const char *stop) {
    REQUIRE(kimi_session_set_stop_strings(session, &stop, 1, nullptr) == KIMI_OK);
}

constexpr std::size_t kCallGolden = 0, kContentGolden = 8;

const std::string kTools = R"([{"type": "function", "function": {"name": "search_files",
    "description": "Find files whose name contains a word", "parameters": {"type": "object",
    "properties": {"word": {"type": "string"}}, "required": ["word"]}}}])";

}  // namespace

TEST_CASE("events: of every golden reply, as a naive parser of its text finds them") {
    const client::Engine engine = client::load();
    const kimi_session_options modes[] = {drafting(0), drafting(8, KIMI_DRAFT_CHAIN), drafting(16),
                                          drafting(KIMI_AUTO)};
    std::size_t n_calls = 0, i = 0;
    for (const GoldenReply &golden : kimi::test::golden_replies()) {
        CAPTURE(golden.name);
        const auto expected = expected_of(golden);
        ++i;
        for (const auto &options : modes) {
            // Calls in every mode, the others in one.
            if (calls_of(expected) == 0 && &options != &modes[i % std::size(modes)]) continue;
            const client::Session session = client::open(engine.get(), options);
            client::append(session.get(), golden.prompt);
            const Seen seen = rest(session.get());
            INFO(seen.text());
            CHECK(seen.events == expected);
            CHECK(seen.end.calls == calls_of(expected));
            CHECK(seen.end.finish_reason ==
                  (seen.end.calls > 0 ? KIMI_FINISH_TOOL_CALLS : KIMI_FINISH_STOP));
            CHECK(seen.end.prompt_tokens == golden.prompt.size());
            CHECK(seen.end.reply_tokens == golden.tokens.size());
            CHECK(client::step(session.get()).finish_reason == seen.end.finish_reason);
            n_calls += seen.end.calls;
        }
    }
    CHECK(n_calls > 0);
}

TEST_CASE("events: the same whoever runs the steps, in any pattern") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    std::mt19937 random(5);
    for (int round = 0; round < 16; ++round) {
        const GoldenReply &golden = goldens[random() % goldens.size()];
        CAPTURE(golden.name);
        const client::Session session = client::open(engine.get(), drafting(random() % 2 * 16));
        client::append(session.get(), golden.prompt);
        Seen seen;
        uint32_t finish = KIMI_FINISH_NONE;
        const unsigned often = 1 + random() % 4;
        while (finish == KIMI_FINISH_NONE && !seen.ended()) {
            if (random() % often == 0) take(session.get(), random() % 2, seen);
            if (random() % 2 == 0) finish = client::step(session.get()).finish_reason;
        }
        seen = rest(session.get(), seen);
        CHECK(seen.events == expected_of(golden));
    }
}

TEST_CASE("events: of sessions in a batch") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    constexpr std::size_t kSessions = 4;
    std::vector<client::Session> sessions;
    std::vector<kimi_session *> batch;
    std::vector<kimi_step> steps(kSessions);
    std::vector<Seen> seen(kSessions);
    for (std::size_t i = 0; i < kSessions; ++i) {
        sessions.push_back(client::open(engine.get(), drafting(4)));
        batch.push_back(sessions.back().get());
        client::append(batch.back(), goldens[6 + i].prompt);
        kimi_step_init(&steps[i]);
    }
    while (!std::all_of(seen.begin(), seen.end(), [](const Seen &s) { return s.ended(); })) {
        REQUIRE(kimi_decode_batch(batch.data(), kSessions, steps.data(), nullptr) == KIMI_OK);
        for (std::size_t i = 0; i < kSessions; ++i)
            while (take(batch[i], KIMI_NO_STEP, seen[i])) {
            }
    }
    for (std::size_t i = 0; i < kSessions; ++i)
        CHECK(seen[i].events == expected_of(goldens[6 + i]));
}

TEST_CASE("events: of steps in the background") {
    const client::Engine engine = client::load();
    const GoldenReply golden = kimi::test::golden_replies()[kCallGolden];
    const client::Session session = client::open(engine.get(), drafting(8));
    client::append(session.get(), golden.prompt);
    int32_t fd = -1;
    REQUIRE(kimi_session_wake_fd(session.get(), &fd, nullptr) == KIMI_OK);
    Seen seen;
    kimi_step step;
    kimi_step_init(&step);
    while (!seen.ended()) {
        REQUIRE(kimi_session_submit(session.get(), nullptr) == KIMI_OK);
        kimi_event event = new_event();
        CHECK(kimi_session_next_event(session.get(), KIMI_NO_STEP, &event, nullptr) ==
              KIMI_INVALID_ARGUMENT);
        pollfd done{fd, POLLIN, 0};
        REQUIRE(poll(&done, 1, 60000) == 1);
        int32_t ready = 0;
        REQUIRE(kimi_session_poll(session.get(), &step, &ready, nullptr) == KIMI_OK);
        REQUIRE(ready == 1);
        while (take(session.get(), KIMI_NO_STEP, seen)) {
        }
    }
    CHECK(seen.events == expected_of(golden));
}

TEST_CASE("events: copies go on with the next one, wherever they are made") {
    const client::Engine engine = client::load(), other = client::load();
    const auto goldens = kimi::test::golden_replies();
    for (const std::size_t which : {kCallGolden, kContentGolden}) {
        const client::Session session = client::open(engine.get(), drafting(8));
        if (which == kContentGolden) set_stop(session.get(), "hidden states");
        client::append(session.get(), goldens[which].prompt);
        const client::Session whole_copy = copy_of(session.get(), false, nullptr);
        const Seen whole = rest(whole_copy.get());
        Seen seen;
        for (bool saved = false; take(session.get(), 0, seen); saved = !saved) {
            const client::Session copy = copy_of(session.get(), saved, other.get());
            Seen copied = seen;
            while (take(copy.get(), 0, copied)) {
            }
            CHECK(copied.events == whole.events);
            CHECK(copied.end.finish_reason == whole.end.finish_reason);
            CHECK(copied.end.calls == whole.end.calls);
        }
        CHECK(seen.events == whole.events);
    }
}

TEST_CASE("events: the text ends before a stop string, within a kind and across markers") {
    const client::Engine engine = client::load();
    const GoldenReply golden = kimi::test::golden_replies()[kCallGolden];
    for (const std::string stop :
         {"call", "time.</think><|tool", "</think>", "Cairo", "_end|>", "\"}<|tool_call_end|>"}) {
        CAPTURE(stop);
        // A marker in which the string begins is no marker any more, and no text.
        std::string kept = golden.reply.substr(0, golden.reply.find(stop));
        const std::size_t open = kept.rfind('<');
        if (open != std::string::npos && kept.find('>', open) == std::string::npos)
            kept.resize(open);
        std::vector<Event> expected = naive(kept, true);
        if (!expected.empty() && expected.back().kind == KIMI_EVENT_CALL) expected.pop_back();
        for (const uint32_t budget : {0U, 16U}) {
            const client::Session session = client::open(engine.get(), drafting(budget));
            set_stop(session.get(), stop.c_str());
            client::append(session.get(), golden.prompt);
            const Seen seen = rest(session.get());
            CHECK(seen.end.finish_reason == KIMI_FINISH_STOP_STRING);
            INFO(seen.text());
            CHECK(seen.events == expected);
        }
    }
}

TEST_CASE("events: what is set for the next reply does not touch those that wait") {
    const client::Engine engine = client::load();
    const GoldenReply golden = kimi::test::golden_replies()[kContentGolden];
    const client::Session session = client::open(engine.get(), drafting(8));
    client::append(session.get(), golden.prompt);
    client::finish(session.get());
    set_stop(session.get(), "hidden states");
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    REQUIRE(kimi_session_set_options(session.get(), &options, nullptr) == KIMI_OK);
    const client::Session fork = copy_of(session.get(), false, nullptr);
    const client::Session restored = copy_of(session.get(), true, engine.get());
    for (kimi_session *reader : {session.get(), fork.get(), restored.get()}) {
        const Seen seen = rest(reader);
        CHECK(seen.events == expected_of(golden));
        CHECK(seen.end.finish_reason == KIMI_FINISH_STOP);
    }
}

TEST_CASE("events: every end is told once, last") {
    const client::Engine engine = client::load();
    const auto prompt = kimi::test::golden_replies()[kContentGolden].prompt;
    kimi_session_options endless = client::greedy();
    endless.flags = KIMI_IGNORE_STOP;
    const auto begun = [&](const kimi_session_options &options) {
        client::Session session = client::open(engine.get(), options);
        client::append(session.get(), prompt);
        return session;
    };
    SUBCASE("length") {
        kimi_session_options options = endless;
        options.max_tokens = 7;
        const Seen seen = rest(begun(options).get());
        CHECK(seen.end.finish_reason == KIMI_FINISH_LENGTH);
        CHECK(seen.end.reply_tokens == 7);
        REQUIRE(seen.events.size() == 1);
        CHECK(seen.events[0].kind == KIMI_EVENT_CONTENT);
    }
    SUBCASE("cancelled in the prompt") {
        const client::Session session = begun(endless);
        kimi_session_cancel(session.get());
        const Seen seen = rest(session.get());
        CHECK(seen.end.finish_reason == KIMI_FINISH_CANCELLED);
        CHECK(seen.end.reply_tokens == 0);
        CHECK(seen.events.empty());
    }
    SUBCASE("cancelled in the reply") {
        const client::Session session = begun(endless);
        Seen seen;
        REQUIRE(take(session.get(), 0, seen));
        kimi_session_cancel(session.get());
        CHECK(!take(session.get(), KIMI_NO_STEP, seen));
        seen = rest(session.get(), seen);
        CHECK(seen.end.finish_reason == KIMI_FINISH_CANCELLED);
    }
    SUBCASE("deadline") {
        kimi_session_options options = endless;
        options.deadline_ms = 1;
        const Seen seen = rest(begun(options).get());
        CHECK(seen.end.finish_reason == KIMI_FINISH_DEADLINE);
    }
    SUBCASE("constraint") {
        const client::Session session = client::open(engine.get(), endless);
        REQUIRE(kimi_session_set_constraint(session.get(), KIMI_CONSTRAINT_REGEX, "yes", 3,
                                            nullptr) == KIMI_OK);
        client::append(session.get(), prompt);
        const Seen seen = rest(session.get());
        CHECK(seen.end.finish_reason == KIMI_FINISH_CONSTRAINT);
        CHECK(seen.events == std::vector<Event>{{KIMI_EVENT_CONTENT, "yes", "", ""}});
    }
    SUBCASE("a call that is cut") {
        const GoldenReply golden = kimi::test::golden_replies()[kCallGolden];
        const auto is_argument = [](const Event &e) { return e.kind == KIMI_EVENT_CALL_ARGUMENTS; };
        for (uint32_t n = 1; n < golden.tokens.size(); ++n) {
            kimi_session_options options = client::greedy();
            options.max_tokens = n;
            const client::Session session = client::open(engine.get(), options);
            client::append(session.get(), golden.prompt);
            const Seen seen = rest(session.get());
            CHECK(seen.end.finish_reason == KIMI_FINISH_LENGTH);
            const auto whole = expected_of(golden);
            REQUIRE(seen.events.size() <= whole.size());
            for (std::size_t i = 0; i < seen.events.size(); ++i) {
                CHECK(seen.events[i].kind == whole[i].kind);
                CHECK(whole[i].text.starts_with(seen.events[i].text));
            }
            CHECK(seen.end.calls == calls_of(seen.events));
            if (seen.end.calls > 0) CHECK(seen.events == whole);
            CHECK(std::count_if(seen.events.begin(), seen.events.end(), is_argument) <= 1);
        }
    }
    SUBCASE("no reply was asked for, or it was dropped") {
        const client::Session session = client::open(engine.get(), endless);
        Seen seen;
        CHECK(!take(session.get(), 0, seen));
        client::append(session.get(), prompt);
        CHECK(take(session.get(), 0, seen));
        client::step(session.get());
        REQUIRE(kimi_session_truncate(session.get(), prompt.size(), nullptr) == KIMI_OK);
        CHECK(!take(session.get(), 0, seen));
        CHECK(!seen.ended());
    }
}

TEST_CASE("events: an append drops what was not taken and begins the next reply") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    const client::Session session = client::open(engine.get(), drafting(8));
    client::append(session.get(), goldens[kCallGolden].prompt);
    client::finish(session.get());
    client::append(session.get(), goldens[kContentGolden].prompt);
    client::Session fresh = client::open(engine.get(), drafting(8));
    auto both = goldens[kCallGolden].prompt;
    for (const auto &more : {goldens[kCallGolden].tokens, goldens[kContentGolden].prompt})
        both.insert(both.end(), more.begin(), more.end());
    client::append(fresh.get(), both);
    const Seen seen = rest(session.get());
    CHECK(seen.events == rest(fresh.get()).events);
    CHECK(seen.end.prompt_tokens == both.size());
}

TEST_CASE("events: an error comes last, with its status, behind the text before it") {
    // The embedding of a token that the reply has and the prompt has not is not a number.
    const GoldenReply golden = kimi::test::golden_replies()[kContentGolden];
    std::size_t at = 2;
    const auto in_prompt = [&](int32_t token) {
        return std::count(golden.prompt.begin(), golden.prompt.end(), token) > 0;
    };
    while (in_prompt(golden.tokens[at])) ++at;
    const kimi::test::TempDir dir;
    for (const auto &file : std::filesystem::directory_iterator(KIMI_MODELS "/nano-k2"))
        std::filesystem::create_symlink(file.path(), dir.file(file.path().filename()));
    const std::string tensor = "language_model.model.embed_tokens.weight";
    const kimi::Json index = kimi::test::read_json(dir.file("model.safetensors.index.json"));
    const std::string shard = index.find("weight_map")->find(tensor)->text;
    std::string bytes = kimi::read_file(dir.file(shard), std::size_t{1} << 30);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    const kimi::Json info = kimi::parse_json(bytes.substr(8, header), "header");
    const auto &offsets = info.find(tensor)->find("data_offsets")->items;
    const auto &shape = info.find(tensor)->find("shape")->items;
    const std::size_t row_bytes = 2 * static_cast<std::size_t>(shape[1].real);
    const std::size_t row = 8 + header + static_cast<std::size_t>(offsets[0].real) +
                            row_bytes * static_cast<std::size_t>(golden.tokens[at]);
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(row), row_bytes, '\xff');
    std::filesystem::remove(dir.file(shard));
    dir.write(shard, bytes);

    const client::Engine engine = client::load(dir.path());
    for (const bool steps : {false, true}) {
        const client::Session session = client::open(engine.get(), drafting(0));
        client::append(session.get(), golden.prompt);
        kimi_step step;
        kimi_step_init(&step);
        while (steps && kimi_decode_step(session.get(), &step, nullptr) == KIMI_OK) {
        }
        const Seen seen = rest(session.get(), {}, KIMI_NUMERIC);
        CHECK(seen.end.finish_reason == KIMI_FINISH_ERROR);
        CHECK(seen.end.reply_tokens == at + 1);
        REQUIRE(seen.events.size() == 1);
        CHECK(golden.reply.starts_with(seen.events[0].text));
        CHECK(seen.events[0].text.size() > 3);
        // What was not taken of an end is saved with it.
        const client::Session failed = client::open(engine.get(), drafting(0));
        client::append(failed.get(), golden.prompt);
        while (kimi_decode_step(failed.get(), &step, nullptr) == KIMI_OK) {
        }
        for (const bool saved : {false, true}) {
            const client::Session copy = copy_of(failed.get(), saved, engine.get());
            CHECK(rest(copy.get(), {}, KIMI_NUMERIC).events == seen.events);
        }
    }
}

TEST_CASE("events: without free pages they wait") {
    const client::Engine engine = client::load_with_capacity(192);
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    options.max_tokens = 30;
    client::Session big = client::open(engine.get(), options);
    client::append(big.get(), std::vector<int32_t>(120, 300));
    client::step(big.get());
    const client::Session small = client::open(engine.get(), options);
    client::append(small.get(), std::vector<int32_t>(60, 300));
    kimi_event event = new_event();
    client::ErrorRecord error;
    Seen seen;
    while (kimi_session_next_event(small.get(), 0, &event, &error) == KIMI_OK) add(event, seen);
    CHECK(error.status == KIMI_BUSY);
    big.reset();
    seen = rest(small.get(), seen);
    CHECK(seen.end.reply_tokens == 30);
    const client::Engine roomy = client::load();
    const client::Session alone = client::open(roomy.get(), options);
    client::append(alone.get(), std::vector<int32_t>(60, 300));
    CHECK(seen.events == rest(alone.get()).events);
}

TEST_CASE("events: question, call, result, answer") {
    const client::Engine engine = client::load();
    for (const bool constrained : {false, true}) {
        const client::Session session = client::open(engine.get(), drafting(8));
        if (constrained)
            REQUIRE(kimi_session_set_constraint(session.get(), KIMI_CONSTRAINT_TOOLS, kTools.data(),
                                                kTools.size(), nullptr) == KIMI_OK);
        std::string messages = R"({"role": "user", "content": "Find files about lantern."})";
        const auto ask = [&] {
            append_chat(session.get(),
                        R"({"messages": [)" + messages + R"(], "tools": )" + kTools + "}");
            return rest(session.get());
        };
        const Seen question = ask();
        INFO(question.text());
        REQUIRE(question.end.finish_reason == KIMI_FINISH_TOOL_CALLS);
        REQUIRE(question.events.size() == 4);
        const Event call = question.events[3];
        CHECK(call == Event{KIMI_EVENT_CALL, R"({"word": "lantern"})", "functions.search_files:0",
                            "search_files"});
        messages += R"(, {"role": "assistant", "content": "", "reasoning_content": ")" +
                    question.events[0].text + R"(", "tool_calls": [{"id": ")" + call.id +
                    R"(", "type": "function", "function": {"name": ")" + call.name +
                    R"(", "arguments": "{\"word\": \"lantern\"}"}}]}, {"role": "tool",
                    "tool_call_id": ")" +
                    call.id + R"(", "content": "[\"lantern.txt\"]"})";
        const uint64_t before = kimi_session_length(session.get());
        append_chat(session.get(),
                    R"({"messages": [)" + messages + R"(], "tools": )" + kTools + "}");
        // The call's tokens are those that the model wrote: nothing is processed again.
        CHECK(client::step(session.get()).prompt_done >= before);
        const Seen answer = rest(session.get());
        INFO(answer.text());
        CHECK(answer.end.finish_reason == KIMI_FINISH_STOP);
        REQUIRE(!answer.events.empty());
        CHECK(answer.events.back().kind == KIMI_EVENT_CONTENT);
        CHECK(answer.events.back().text.starts_with("I found "));
    }
}

TEST_CASE("events: bad arguments are named") {
    const client::Engine engine = client::load();
    const client::Session session = client::open(engine.get());
    kimi_event event = new_event();
    client::ErrorRecord error;
    const auto refused = [&](kimi_status status, const std::string &text) {
        CHECK(status == KIMI_INVALID_ARGUMENT);
        CHECK(kimi::test::contains(error.message, text));
    };
    refused(kimi_session_next_event(nullptr, 0, &event, &error), "session is NULL");
    refused(kimi_session_next_event(session.get(), 0, nullptr, &error), "out is NULL");
    refused(kimi_session_next_event(session.get(), 2, &event, &error), "flags is 2");
    event.struct_size = 8;
    refused(kimi_session_next_event(session.get(), 0, &event, &error), "out.struct_size is 8");
}
