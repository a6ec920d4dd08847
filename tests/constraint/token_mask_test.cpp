#include "constraint/token_mask.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "constraint/fixtures.h"
#include "constraint/naive_json.h"
#include "constraint/random_schema.h"

using namespace kimi;

namespace {

struct Vocabulary {
    Tokenizer tokenizer;
    std::shared_ptr<const VocabTrie> trie = std::make_shared<const VocabTrie>(tokenizer);
    std::vector<std::int32_t> stops = [this] {
        const auto tokens = tokenizer.stop_tokens();
        return std::vector<std::int32_t>(tokens.begin(), tokens.end());
    }();

    TokenMask mask(test::Compiled constraint) const {
        return {std::move(constraint), tokenizer, trie, stops};
    }
};
const Vocabulary &kimi_vocabulary() {
    static const Vocabulary vocabulary{Tokenizer(test::data("kimi-tokenizer"))};
    return vocabulary;
}
const Vocabulary &nano_vocabulary() {
    static const Vocabulary vocabulary{Tokenizer(test::nano())};
    return vocabulary;
}

using Words = std::vector<std::uint64_t>;
Words filled(const TokenMask &mask, const ConstraintState &state) {
    Words words(mask.n_words(), ~std::uint64_t{0});  // every bit must be written
    mask.fill(state, words);
    return words;
}
bool has(const Words &words, std::int32_t token) {
    return (words[static_cast<std::size_t>(token) / 64] >> token % 64 & 1) != 0;
}

// Token by token, without trie and cache.
Words brute_force(const Vocabulary &vocabulary, const Constraint &constraint,
                  const ConstraintState &state) {
    const std::int32_t n = vocabulary.tokenizer.vocab_size();
    Words words((static_cast<std::size_t>(n) + 63) / 64);
    for (std::int32_t token = 0; token < n; ++token) {
        ConstraintState next = state;
        const bool stop = std::find(vocabulary.stops.begin(), vocabulary.stops.end(), token) !=
                          vocabulary.stops.end();
        if (vocabulary.tokenizer.is_special(token)
                ? stop && constraint.accepting(state)
                : constraint.advance(next, vocabulary.tokenizer.token_bytes(token)))
            words[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << token % 64;
    }
    return words;
}

constexpr std::string_view kSchemas[] = {
    R"({"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer",
        "minimum": 1, "maximum": 150}, "tags": {"type": "array", "maxItems": 3, "items":
        {"enum": ["a", "bc", "ünit", "d\n"]}}}, "required": ["city"]})",
    R"({"type": "array", "items": {"anyOf": [{"type": "number"}, {"$ref": "#"}, {"type": "null"}]}})",
    R"({"properties": {"s": {"type": "string", "minLength": 3, "maxLength": 300},
        "p": {"type": "string", "pattern": "^[a-z]+( [a-z]+)*$"}}, "required": ["p"],
        "additionalProperties": {"type": "boolean"}})",
    R"({"anyOf": [{"properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
        "required": ["kind", "r"]}, {"properties": {"kind": {"const": "square"}, "side":
        {"type": "number", "exclusiveMinimum": 0}}, "required": ["kind", "side"]}]})",
    "{}"};
constexpr std::string_view kExpressions[] = {"(yes|no|maybe)", "[A-Z][a-z]+(, [A-Z][a-z]+)*\\.",
                                             "\\d{4}-\\d{2}-\\d{2}", "[^]*", "(中|国|é)+"};

std::vector<test::Compiled> constraints() {
    std::vector<test::Compiled> all;
    for (const std::string_view text : kSchemas) all.push_back(test::schema(text));
    for (const std::string_view text : kExpressions) all.push_back(test::regex(text));
    return all;
}

// Follows random allowed tokens, mostly short, for a while.
ConstraintState random_state(test::Random &random, const Vocabulary &vocabulary,
                             const TokenMask &mask) {
    ConstraintState state = mask.constraint().start();
    for (std::size_t i = test::below(random, 25); i > 0; --i) {
        for (int attempt = 0; attempt < 200; ++attempt) {
            const bool byte = test::below(random, 3) > 0;
            const auto token = static_cast<std::int32_t>(test::below(
                random, byte ? 256 : static_cast<std::size_t>(vocabulary.tokenizer.vocab_size())));
            if (!vocabulary.tokenizer.is_special(token) && mask.advance(state, token)) break;
        }
    }
    return state;
}

void check_masks(const Vocabulary &vocabulary, int n_states) {
    test::Random random(1);
    for (const test::Compiled &constraint : constraints()) {
        const TokenMask mask = vocabulary.mask(constraint);
        for (int i = 0; i < n_states; ++i) {
            const ConstraintState state = random_state(random, vocabulary, mask);
            const Words expected = brute_force(vocabulary, *constraint, state);
            CHECK(filled(mask, state) == expected);
            CHECK(filled(mask, state) == expected);  // now remembered
            for (int k = 0; k < 50; ++k) {
                const auto token = static_cast<std::int32_t>(test::below(
                    random, static_cast<std::size_t>(vocabulary.tokenizer.vocab_size())));
                CHECK(mask.allows(state, token) == has(expected, token));
            }
        }
    }
}

// All strings in a schema, as JSON spells them, with the closing quote. Names that are required
// come often: an object cannot end without them, and other names may be allowed in their place.
void collect_strings(const Json &json, std::vector<std::string> &strings) {
    if (json.is(Json::Kind::string)) strings.push_back(dump_json(json).substr(1));
    for (const Json &item : json.items) collect_strings(item, strings);
    for (const auto &[name, value] : json.members) {
        strings.push_back(test::json_string(name).substr(1));
        for (int i = 0; i < (name == "required" ? 8 : 1); ++i) collect_strings(value, strings);
    }
}

std::int32_t byte_token(const Vocabulary &vocabulary, char byte) {
    std::int32_t token = 0;
    while (vocabulary.tokenizer.token_bytes(token) != std::string_view(&byte, 1)) ++token;
    return token;
}

// A text of random allowed tokens: for a while any, then those that lead to an end.
std::string generated(test::Random &random, const Vocabulary &vocabulary, const TokenMask &mask,
                      const Json &schema) {
    std::vector<std::string> strings{"\""};
    collect_strings(schema, strings);
    ConstraintState state = mask.constraint().start();
    std::string text;
    const auto append = [&](std::int32_t token) {
        REQUIRE(has(filled(mask, state), token));
        REQUIRE(mask.advance(state, token));
        text += vocabulary.tokenizer.token_bytes(token);
    };
    for (int step = 0; step < 1000; ++step) {
        const Words words = filled(mask, state);
        std::vector<std::int32_t> allowed, short_ones, closing;
        for (std::int32_t token = 0; token < vocabulary.tokenizer.vocab_size(); ++token) {
            if (!has(words, token) || vocabulary.tokenizer.is_special(token)) continue;
            allowed.push_back(token);
            const std::string_view bytes = vocabulary.tokenizer.token_bytes(token);
            if (bytes.size() == 1 && bytes.find_first_of("\"}]01n.,") == 0)
                short_ones.push_back(token);
            if (bytes == "}" || bytes == "]") {
                ConstraintState next = state;
                mask.advance(next, token);
                if (next.depth < state.depth) closing.push_back(token);
            }
        }
        if (has(words, vocabulary.stops[0]) &&
            (allowed.empty() || step > 30 || test::below(random, 4) == 0)) {
            CHECK(mask.advance(state, vocabulary.stops[0]));
            CHECK(filled(mask, state) == Words(mask.n_words()));  // nothing after the end
            return text;
        }
        REQUIRE_MESSAGE(!allowed.empty(), "dead end after ", text);
        const bool hurry = step > 30 || test::below(random, 3) == 0;
        std::string string = strings[test::below(random, strings.size())];
        if (test::below(random, 3) == 0)
            string = string.substr(test::below(random, string.size()), 1);
        ConstraintState next = state;
        if (hurry && !closing.empty() && test::below(random, 2) == 0) {
            append(closing[0]);
        } else if (hurry && mask.constraint().advance(next, string)) {
            for (const char c : string) append(byte_token(vocabulary, c));
        } else {
            const auto &from = hurry && !short_ones.empty() ? short_ones : allowed;
            append(from[test::below(random, from.size())]);
        }
    }
    FAIL("no end: ", text);
    return text;
}

}  // namespace

TEST_CASE("token mask: the mask is what trying every token gives, nano-k2's vocabulary") {
    check_masks(nano_vocabulary(), 40);
}

TEST_CASE("token mask: the mask is what trying every token gives, Kimi's vocabulary") {
    check_masks(kimi_vocabulary(), 6);
}

TEST_CASE("token mask: random allowed tokens always end in a valid text") {
    test::Random random(2);
    for (const Vocabulary *vocabulary : {&nano_vocabulary(), &kimi_vocabulary()}) {
        for (const std::string_view text : kSchemas) {
            const Json schema = parse_json(text, "schema");
            const TokenMask mask = vocabulary->mask(test::schema(text));
            for (int i = 0; i < 8; ++i) {
                const std::string reply = generated(random, *vocabulary, mask, schema);
                CAPTURE(reply);
                const auto value = test::read_spelled(reply);
                REQUIRE(value);
                CHECK(test::NaiveSchema(schema).allows(*value, false));
                parse_json(reply, "reply");
            }
        }
    }
    test::RandomSchema make(random);
    for (int round = 0; round < 150; ++round) {
        const std::string text = make.make();
        CAPTURE(text);
        test::Compiled compiled;
        try {
            compiled = test::schema(text);
        } catch (const Error &) {
            continue;  // no value satisfies it
        }
        const Json schema = parse_json(text, "schema");
        const TokenMask mask = nano_vocabulary().mask(compiled);
        const std::string reply = generated(random, nano_vocabulary(), mask, schema);
        CAPTURE(reply);
        const auto value = test::read_spelled(reply);
        REQUIRE(value);
        CHECK(test::NaiveSchema(schema).allows(*value, false));
    }
}

TEST_CASE("token mask: end tokens end complete texts only, other specials never appear") {
    const Vocabulary &nano = nano_vocabulary();
    const std::int32_t call_end = *nano.tokenizer.special("<|tool_call_end|>");
    const TokenMask mask(test::schema(R"({"properties": {"a": {"type": "string"}}})"),
                         nano.tokenizer, nano.trie, std::vector{call_end});
    ConstraintState state = mask.constraint().start();
    for (const std::int32_t token : nano.tokenizer.encode(R"({"a": "<|tool_call_end|>"})", false)) {
        CHECK_FALSE(mask.allows(state, call_end));
        REQUIRE(mask.advance(state, token));
    }
    CHECK(mask.allows(state, call_end));
    for (const char *name : {"<|im_end|>", "[EOS]", "<think>", "</think>", "[PAD]"})
        CHECK_FALSE(mask.allows(state, *nano.tokenizer.special(name)));
    CHECK_FALSE(mask.allows(state, -1));
    CHECK_FALSE(mask.allows(state, nano.tokenizer.vocab_size()));
    const ConstraintState before = state;
    CHECK_FALSE(mask.advance(state, *nano.tokenizer.special("<|im_end|>")));
    CHECK(mask.constraint().accepting(state));
    CHECK(mask.advance(state, call_end));
    CHECK_FALSE(mask.allows(state, call_end));
    CHECK(test::dead(mask.constraint(), state));
    CHECK(mask.allows(before, call_end));
}

TEST_CASE("token mask: threads share a mask") {
    const TokenMask mask = nano_vocabulary().mask(test::schema(kSchemas[2]));
    std::vector<ConstraintState> states;
    std::vector<Words> expected;
    test::Random random(4);
    for (int i = 0; i < 30; ++i) {
        states.push_back(random_state(random, nano_vocabulary(), mask));
        expected.push_back(brute_force(nano_vocabulary(), mask.constraint(), states.back()));
    }
    std::vector<std::thread> threads;
    std::vector<int> wrong(4);
    for (std::size_t t = 0; t < wrong.size(); ++t)
        threads.emplace_back([&, t] {
            for (int round = 0; round < 20; ++round)
                for (std::size_t i = 0; i < states.size(); ++i)
                    wrong[t] += filled(mask, states[i]) != expected[i];
        });
    for (std::thread &thread : threads) thread.join();
    CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("token mask: speed on Kimi's vocabulary") {
    const Vocabulary &vocabulary = kimi_vocabulary();
    const struct {
        const char *name;
        test::Compiled constraint;
        std::string_view text;
    } cases[] = {{"JSON value", test::schema("{}"), "["},
                 {"JSON string", test::schema("{}"), "[{\"a\": \"x"},
                 {"name", test::schema(kSchemas[0]), "{\"c"},
                 {"number", test::schema(kSchemas[0]), "{\"n\": 1"},
                 {"string", test::schema(kSchemas[0]), "{\"city\": \"x"},
                 {"string, 300", test::schema(kSchemas[2]), "{\"s\": \"x"},
                 {"pattern", test::schema(kSchemas[2]), "{\"p\": \"x"},
                 {"regex [^]*", test::regex("[^]*"), "x"}};
    for (const auto &c : cases) {
        ConstraintState state = c.constraint->start();
        REQUIRE(c.constraint->advance(state, c.text));
        double first = 1e9, again = 1e9, allows = 1e9;
        int n_allowed = 0;
        for (int i = 0; i < 5; ++i) {
            const TokenMask mask = vocabulary.mask(c.constraint);
            Words words(mask.n_words());
            first = std::min(first, test::seconds_of([&] { mask.fill(state, words); }));
            again = std::min(again, test::seconds_of([&] {
                                 for (int k = 0; k < 100; ++k) mask.fill(state, words);
                             }));
        }
        const TokenMask mask = vocabulary.mask(c.constraint);
        for (int i = 0; i < 5; ++i)
            allows = std::min(allows, test::seconds_of([&] {
                                  for (std::int32_t token = 0; token < 10000; ++token)
                                      n_allowed += mask.allows(state, token);
                              }));
        std::printf("constraint: mask in %-12s %7.1f us, again %5.2f us, a token %5.1f ns\n",
                    c.name, 1e6 * first, 1e4 * again, 1e5 * allows);
        CHECK(n_allowed > 0);
        if (test::kInstrumented) continue;
        CHECK(1e3 * first < 30);
        CHECK(10 * again < 0.1);
    }
}
