// How a reply's events end: at a stop string, however else the reply ends, with an error, or not
// yet.
#include <algorithm>
#include <cstring>

#include "capi/event_reader.h"

using namespace client;

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
