// Constraints, logit bias and stop strings, through the C ABI.
#include <algorithm>
#include <cmath>
#include <regex>

#include "capi/client.h"
#include "capi/goldens.h"
#include "constraint/naive_json.h"

namespace {

using client::Reply;
using kimi::test::contains;

std::vector<int32_t> encode(kimi_engine *engine, const std::string &text) {
    std::vector<int32_t> tokens(text.size() + 1);
    std::size_t n = 0;
    REQUIRE(kimi_tokenize(kimi_engine_tokenizer(engine), text.data(), text.size(), KIMI_SPECIALS,
                          tokens.data(), tokens.size(), &n, nullptr) == KIMI_OK);
    tokens.resize(n);
    return tokens;
}

void constrain(kimi_session *session, uint32_t kind, const std::string &text) {
    client::ErrorRecord error;
    const kimi_status status =
        kimi_session_set_constraint(session, kind, text.data(), text.size(), &error);
    INFO(error.message);
    REQUIRE(status == KIMI_OK);
}

struct Run {
    Reply reply;
    kimi_session_statistics stats;
};

double accepted_per_step(const std::vector<Run> &runs) {
    uint64_t accepted = 0, steps = 0;
    for (const Run &run : runs) accepted += run.stats.accepted, steps += run.stats.steps;
    return static_cast<double>(accepted) / static_cast<double>(steps);
}

Run generate(kimi_engine *engine, const std::vector<int32_t> &prompt,
             const kimi_session_options &options, uint32_t kind, const std::string &text) {
    const client::Session session = client::open(engine, options);
    constrain(session.get(), kind, text);
    client::append(session.get(), prompt);
    Run run{client::finish(session.get()), {}};
    kimi_session_statistics_init(&run.stats);
    REQUIRE(kimi_session_stats(session.get(), &run.stats, nullptr) == KIMI_OK);
    return run;
}

bool satisfies(const std::string &schema, const std::string &text) {
    const kimi::Json root = kimi::parse_json(schema, "schema");
    const auto value = kimi::test::read_spelled(text);
    return value && kimi::test::NaiveSchema(root).allows(*value, false);
}

kimi_session_options sampled(uint64_t seed, float temperature) {
    kimi_session_options options;
    kimi_session_options_init(&options);
    options.seed = seed;
    options.temperature = temperature;
    options.max_tokens = 120;
    return options;
}

const std::string kInstant =
    "<|im_user|>user<|im_middle|>Good morning.<|im_end|><|im_assistant|>assistant<|im_middle|>"
    "<think></think>";
const std::string kThinking =
    "<|im_user|>user<|im_middle|>Good morning.<|im_end|><|im_assistant|>assistant<|im_middle|>"
    "<think>";

// Schemas whose values are short: a model that knows nothing of them comes to an end.
const std::string kPerson = R"({"type": "object", "properties": {"name": {"type": "string",
    "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "city": {"enum":
    ["Rome", "Paris", "Cairo"]}}, "required": ["name", "age", "city"]})";
const std::string kSchemas[] = {
    kPerson, R"({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4})",
    R"({"anyOf": [{"const": "yes"}, {"type": "object", "properties": {"why": {"type": "string",
        "pattern": "^[a-z ]{3,20}$"}}, "required": ["why"]}]})"};

const std::string kTimeTool =
    R"([{"type": "function", "function": {"name": "get_time", "parameters":
    {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}},
     "required": ["city"]}}}, {"type": "function", "function": {"name": "calculate", "parameters":
    {"type": "object", "properties": {"expression": {"type": "string"}}}}}])";

// Prompts of the goldens to which the model writes what the constraint asks for.
struct Natural {
    std::size_t golden;
    uint32_t kind;
    std::string text;
};
std::vector<Natural> natural_cases() {
    return {{0, KIMI_CONSTRAINT_TOOLS, kTimeTool},
            {5, KIMI_CONSTRAINT_JSON_SCHEMA,
             R"({"properties": {"name": {"type": "string"}, "age": {"type": "integer"},
                 "city": {"type": "string"}}, "required": ["name", "age", "city"]})"},
            {5, KIMI_CONSTRAINT_REGEX, R"(\{"name": "\w+", "age": \d+, "city": "\w+"\})"}};
}

constexpr std::pair<uint32_t, uint32_t> kDrafting[] = {{KIMI_DRAFT_TREE, 4},
                                                       {KIMI_DRAFT_TREE, 63},
                                                       {KIMI_DRAFT_TREE, KIMI_AUTO},
                                                       {KIMI_DRAFT_CHAIN, 16}};

}  // namespace

TEST_CASE("constraint: replies satisfy their schema, the same with and without drafting") {
    const client::Engine engine = client::load();
    const auto prompt = encode(engine.get(), kInstant);
    for (const std::string &schema : kSchemas) {
        for (uint64_t seed = 0; seed < 2; ++seed) {
            CAPTURE(schema);
            CAPTURE(seed);
            kimi_session_options options = sampled(seed, seed == 0 ? 0 : 1.0f);
            options.draft_budget = 0;
            const Reply plain =
                generate(engine.get(), prompt, options, KIMI_CONSTRAINT_JSON_SCHEMA, schema).reply;
            CAPTURE(plain.text);
            CHECK(plain.finish == KIMI_FINISH_STOP);
            CHECK(satisfies(schema, plain.text));
            for (const auto &[mode, budget] : kDrafting) {
                options.draft_mode = mode;
                options.draft_budget = budget;
                const Reply drafted =
                    generate(engine.get(), prompt, options, KIMI_CONSTRAINT_JSON_SCHEMA, schema)
                        .reply;
                CHECK(drafted.tokens == plain.tokens);
                CHECK(drafted.text == plain.text);
                CHECK(drafted.finish == plain.finish);
            }
        }
    }
}

TEST_CASE("constraint: what the model would write anyway stays, and so does acceptance") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    for (const auto &c : natural_cases())
        for (const auto &drafting : kDrafting) {
            const auto &mode = drafting.first;
            const auto &budget = drafting.second;
            CAPTURE(c.text);
            CAPTURE(mode);
            CAPTURE(budget);
            kimi_session_options options = client::greedy();
            options.draft_mode = mode;
            options.draft_budget = budget;
            const auto &golden = goldens[c.golden];
            const Run free =
                generate(engine.get(), golden.prompt, options, KIMI_CONSTRAINT_NONE, "");
            const Run bound = generate(engine.get(), golden.prompt, options, c.kind, c.text);
            CHECK(free.reply.tokens == golden.tokens);
            CHECK(bound.reply.tokens == golden.tokens);
            // KIMI_AUTO measures time: its trees differ from run to run.
            if (budget == KIMI_AUTO) continue;
            CHECK(accepted_per_step({bound}) >= 0.9 * accepted_per_step({free}));
        }
}

TEST_CASE("constraint: acceptance of sampled JSON does not fall" * doctest::test_suite("slow")) {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    for (const auto &c : natural_cases()) {
        std::vector<Run> free, bound;
        kimi_session_options options = sampled(0, 1);
        options.draft_budget = 16;
        for (options.seed = 0; options.seed < 20; ++options.seed) {
            const auto &prompt = goldens[c.golden].prompt;
            free.push_back(generate(engine.get(), prompt, options, KIMI_CONSTRAINT_NONE, ""));
            bound.push_back(generate(engine.get(), prompt, options, c.kind, c.text));
        }
        MESSAGE("accepted per step: ", accepted_per_step(free), " free, ", accepted_per_step(bound),
                " constrained");
        CHECK(accepted_per_step(bound) >= 0.9 * accepted_per_step(free));
    }
}

TEST_CASE("constraint: values that the model would not write are drafted too") {
    const client::Engine engine = client::load();
    const auto prompt = encode(engine.get(), kInstant);
    kimi_session_options options = client::greedy();
    options.draft_budget = 63;
    const Run run = generate(engine.get(), prompt, options, KIMI_CONSTRAINT_JSON_SCHEMA, kPerson);
    MESSAGE(run.reply.text, ": ", run.stats.accepted, " of ", run.stats.drafted,
            " drafted tokens accepted in ", run.stats.steps, " steps");
    CHECK(satisfies(kPerson, run.reply.text));
    CHECK(run.stats.accepted > 0);
}

TEST_CASE("constraint: it begins behind the reasoning") {
    const client::Engine engine = client::load();
    const std::string pattern = "(red|green|blue)( (red|green|blue)){0,3}";
    for (uint64_t seed = 0; seed < 3; ++seed) {
        CAPTURE(seed);
        const Reply reply = generate(engine.get(), encode(engine.get(), kThinking),
                                     sampled(seed, 0.8f), KIMI_CONSTRAINT_REGEX, pattern)
                                .reply;
        CAPTURE(reply.text);
        REQUIRE(reply.finish == KIMI_FINISH_STOP);
        const std::size_t end = reply.text.find("</think>");
        REQUIRE(end != std::string::npos);
        CHECK(std::regex_match(reply.text.substr(end + 8), std::regex(pattern)));
    }
}

TEST_CASE("constraint: calls are of declared tools, with arguments that they take") {
    const client::Engine engine = client::load();
    const auto goldens = kimi::test::golden_replies();
    // The prompt declares get_time and calculate, which here take something else.
    const std::string tools = R"([{"function": {"name": "get_sun", "parameters": {"properties":
        {"day": {"type": "integer", "minimum": 1, "maximum": 31}}, "required": ["day"]}}}])";
    for (uint64_t seed = 0; seed < 3; ++seed) {
        const Reply reply =
            generate(engine.get(), goldens[0].prompt, sampled(seed, seed == 0 ? 0 : 0.5f),
                     KIMI_CONSTRAINT_TOOLS, tools)
                .reply;
        CAPTURE(reply.text);
        const std::regex call(
            "<\\|tool_call_begin\\|>functions\\.get_sun:\\d+"
            "<\\|tool_call_argument_begin\\|>\\{\"day\": ?([1-9]|[12][0-9]|3[01])\\}"
            "<\\|tool_call_end\\|>");
        CHECK(std::regex_search(reply.text, call));
        CHECK_FALSE(contains(reply.text, "get_time:"));
    }
}

TEST_CASE("constraint: a reply that cannot go on ends with its own reason") {
    const client::Engine engine = client::load();
    kimi_session_options options = client::greedy();
    options.flags = KIMI_IGNORE_STOP;
    for (const uint32_t budget : {0U, 16U}) {
        options.draft_budget = budget;
        const Reply reply = generate(engine.get(), encode(engine.get(), kInstant), options,
                                     KIMI_CONSTRAINT_REGEX, "a{3}")
                                .reply;
        CHECK(reply.finish == KIMI_FINISH_CONSTRAINT);
        CHECK(reply.text.starts_with("aaa<|im_end|>"));
    }
    // Cut by max_tokens, a value is not complete.
    options = client::greedy();
    options.max_tokens = 3;
    const Reply cut = generate(engine.get(), encode(engine.get(), kInstant), options,
                               KIMI_CONSTRAINT_JSON_SCHEMA, kPerson)
                          .reply;
    CHECK(cut.finish == KIMI_FINISH_LENGTH);
    CHECK(cut.tokens.size() == 3);
}

TEST_CASE("constraint: forks and restored sessions go on in the same place") {
    const client::Engine engine = client::load(), other = client::load();
    const kimi_session_options options = sampled(5, 1.0f);
    const auto prompt = encode(engine.get(), kThinking);
    const client::Session session = client::open(engine.get(), options);
    constrain(session.get(), KIMI_CONSTRAINT_JSON_SCHEMA, kPerson);
    const kimi_logit_bias bias = {300, -2.5f};
    const char *stop = "\"city\"";
    REQUIRE(kimi_session_set_logit_bias(session.get(), &bias, 1, nullptr) == KIMI_OK);
    REQUIRE(kimi_session_set_stop_strings(session.get(), &stop, 1, nullptr) == KIMI_OK);
    const auto restored = [&] {
        std::size_t size = 0;
        kimi_session_save_buffer(session.get(), nullptr, 0, &size, nullptr);
        std::string bytes(size, '\0');
        REQUIRE(kimi_session_save_buffer(session.get(), bytes.data(), size, &size, nullptr) ==
                KIMI_OK);
        kimi_session *copy = nullptr;
        REQUIRE(kimi_session_restore_buffer(other.get(), bytes.data(), size, 0, &copy, nullptr) ==
                KIMI_OK);
        return client::Session(copy);
    };
    // Before the reply the rules wait for it.
    const client::Session idle = restored();
    client::append(idle.get(), prompt);
    const Reply whole = client::finish(idle.get());
    CHECK(whole.finish == KIMI_FINISH_STOP_STRING);
    CHECK(contains(whole.text, "</think>{"));
    CHECK_FALSE(contains(whole.text, stop));

    client::append(session.get(), prompt);
    std::string text;
    std::size_t n_steps = 0;
    for (uint32_t finish = KIMI_FINISH_NONE; finish == KIMI_FINISH_NONE; ++n_steps) {
        CAPTURE(n_steps);
        kimi_session *copy = nullptr;
        REQUIRE(kimi_session_fork(session.get(), nullptr, &copy, nullptr) == KIMI_OK);
        const Reply forked = client::finish(client::Session(copy).get());
        const Reply saved = client::finish(restored().get());
        for (const Reply &rest : {forked, saved}) {
            CHECK(text + rest.text == whole.text);
            CHECK(rest.finish == whole.finish);
        }
        const kimi_step s = client::step(session.get());
        text.append(s.text, s.text_len);
        finish = s.finish_reason;
    }
    CHECK(n_steps > 3);
    CHECK(text == whole.text);
}

TEST_CASE("constraint: it holds from the next reply on, until it is taken back") {
    const client::Engine engine = client::load();
    const auto prompt = encode(engine.get(), kInstant);
    const client::Session session = client::open(engine.get());
    client::append(session.get(), prompt);
    constrain(session.get(), KIMI_CONSTRAINT_REGEX, "[0-9]{4}");
    const Reply first = client::finish(session.get());
    CHECK(contains(first.text, "Good morning"));
    client::append(session.get(), prompt);
    CHECK(std::regex_match(client::finish(session.get()).text, std::regex("[0-9]{4}")));
    constrain(session.get(), KIMI_CONSTRAINT_NONE, "");
    REQUIRE(kimi_session_truncate(session.get(), 0, nullptr) == KIMI_OK);
    client::append(session.get(), prompt);
    CHECK(client::finish(session.get()).tokens == first.tokens);
}

TEST_CASE("logit bias: it moves the choice by as much as it says") {
    const client::Engine engine = client::load();
    const auto golden = kimi::test::golden_replies()[2];
    const auto with = [&](int32_t token, float value, uint32_t budget) {
        kimi_session_options options = client::greedy();
        options.draft_budget = budget;
        const client::Session session = client::open(engine.get(), options);
        const kimi_logit_bias biases[] = {{token, value / 2}, {token, value / 2}};
        REQUIRE(kimi_session_set_logit_bias(session.get(), biases, 2, nullptr) == KIMI_OK);
        client::append(session.get(), golden.prompt);
        return client::finish(session.get()).tokens;
    };
    const int32_t second = golden.tokens[1];
    const auto without = with(second, -100, 0);
    CHECK(without[0] == golden.tokens[0]);
    CHECK(std::find(without.begin(), without.end(), second) == without.end());
    CHECK(with(second, -100, 16) == without);
    // Less than the gap between the two best tokens, 7.4 in this reply, changes nothing.
    CHECK(with(second, -7, 0) == golden.tokens);
    CHECK(with(golden.tokens.back(), 100, 0).size() == 1);
}

TEST_CASE("stop strings: the text ends before the first, with and without drafting") {
    const client::Engine engine = client::load();
    const auto golden = kimi::test::golden_replies()[8];
    const std::string text = golden.reply.substr(0, golden.reply.find("<|im_end|>"));
    const std::vector<std::vector<std::string>> lists = {
        {"hidden states"},    {"a", "r"},   {"DFlash"}, {"y", "target model and", "xyz"},
        {".", "drafter. It"}, {"not there"}};
    for (const auto &list : lists) {
        CAPTURE(list[0]);
        std::size_t end = std::string::npos, at = text.size();
        for (const std::string &stop : list) {
            const std::size_t found = text.find(stop);
            if (found != std::string::npos && found + stop.size() < end)
                end = found + stop.size(), at = found;
        }
        for (const uint32_t budget : {0U, 16U}) {
            kimi_session_options options = client::greedy();
            options.draft_budget = budget;
            const client::Session session = client::open(engine.get(), options);
            std::vector<const char *> strings;
            for (const std::string &stop : list) strings.push_back(stop.c_str());
            REQUIRE(kimi_session_set_stop_strings(session.get(), strings.data(), strings.size(),
                                                  nullptr) == KIMI_OK);
            client::append(session.get(), golden.prompt);
            const Reply reply = client::finish(session.get());
            CHECK(reply.text == text.substr(0, at));
            CHECK(reply.finish ==
                  (end == std::string::npos ? KIMI_FINISH_STOP : KIMI_FINISH_STOP_STRING));
            CHECK(std::equal(reply.tokens.begin(), reply.tokens.end(), golden.tokens.begin()));
        }
    }
}
