#include "constraint/constraint.h"

#include <cstdio>

#include "constraint/fixtures.h"
#include "constraint/naive_json.h"
#include "constraint/random_schema.h"

using namespace kimi;
using test::accepts;

namespace {

// Objects may be alternatives of each other: whether order matters depends on the place.
bool has_unions(const Json &schema) {
    std::size_t n_objects = 0;
    for (const auto &[key, value] : schema.members) {
        if (key == "anyOf" || key == "oneOf" || has_unions(value)) return true;
        for (const Json &item : value.items) {
            if (has_unions(item)) return true;
            if (key == "enum" && item.is(Json::Kind::object)) ++n_objects;
        }
    }
    return n_objects > 1;
}

void check_text(const Constraint &constraint, const Json &schema, bool unions,
                const std::string &text, std::size_t &n_accepted) {
    CAPTURE(text);
    const auto value = test::read_spelled(text);
    const test::NaiveSchema naive(schema);
    const bool any_order = value && naive.allows(*value, false);
    const bool ordered = any_order && naive.allows(*value, true);
    const bool got = accepts(constraint, text);
    n_accepted += got;
    if (ordered || !unions) CHECK(got == any_order);
    if (!any_order) CHECK_FALSE(got);
}

}  // namespace

TEST_CASE("constraint: random values of random schemas, as a naive validator judges them") {
    test::Random random(5);
    test::RandomSchema make(random);
    std::size_t n_schemas = 0, n_texts = 0, n_accepted = 0;
    for (int round = 0; round < 1000; ++round) {
        const std::string text = make.make();
        CAPTURE(text);
        const Json schema = parse_json(text, "schema");
        test::Compiled compiled;
        try {
            compiled = test::schema(text);
        } catch (const Error &error) {
            CHECK(error.text == "schema: no value satisfies this schema");
        }
        ++n_schemas;
        const bool unions = has_unions(schema);
        for (int i = 0; i < 30; ++i) {
            std::string value = make.value(schema, schema);
            if (value.size() > 2000) continue;
            if (i % 3 == 2) value = test::damaged(random, std::move(value));
            ++n_texts;
            if (compiled != nullptr) {
                check_text(*compiled, schema, unions, value, n_accepted);
            } else {
                const auto spelled = test::read_spelled(value);
                CHECK_FALSE((spelled && test::NaiveSchema(schema).allows(*spelled, false)));
            }
        }
    }
    std::printf("constraint: %zu schemas, %zu texts, %zu accepted\n", n_schemas, n_texts,
                n_accepted);
    CHECK(n_accepted > n_texts / 4);
}

TEST_CASE("constraint: JSON has one line and at most one space behind , and :") {
    const test::Compiled any = test::schema("{}");
    for (const char *text : {"1", "-0.5e+10", "\"a\\u00e4\\ud83d\\ude00\\/ä\"", "[]", "{}", "null",
                             "[1,2, 3]", "{\"a\":1, \"b\": [true,false]}", "{\"\":{\"\": null}}"})
        CHECK(accepts(*any, text));
    for (const char *text : {"",
                             " 1",
                             "1 ",
                             "[ ]",
                             "[1 ,2]",
                             "[1,  2]",
                             "[1,\n2]",
                             "{ \"a\":1}",
                             "{\"a\" :1}",
                             "{\"a\":1 }",
                             "01",
                             "1.",
                             "+1",
                             ".5",
                             "[1,]",
                             "{\"a\":1,}",
                             "{a:1}",
                             "'a'",
                             "\"\t\"",
                             "\"\\x\"",
                             "\"\\ud800\"",
                             "\"\\udc00\"",
                             "\"\\ud800\\u0041\"",
                             "\"\xC3\"",
                             "\"\xED\xA0\x80\"",
                             "nul",
                             "True",
                             "{\"a\"}",
                             "[",
                             "\"",
                             "{\"\\u0061\":1}"})
        CHECK_FALSE(accepts(*any, text));
}

TEST_CASE("constraint: nesting is limited, and never begun where it could not be ended") {
    const test::Compiled any = test::schema("{}");
    const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
    CHECK(accepts(*any, nested(kMaxNesting)));
    CHECK_FALSE(accepts(*any, nested(kMaxNesting + 1)));
    CHECK_FALSE(
        accepts(*any, std::string(kMaxNesting, '[') + "\"\"" + std::string(kMaxNesting, ']')));
    // Each level takes two frames and its end a third, for the string.
    const test::Compiled list = test::schema(
        R"({"type": "object", "properties": {"next": {"type": "array", "prefixItems": [{"$ref": "#"},
            {"type": "string"}], "minItems": 2, "maxItems": 2}, "end": {"const": "x"}},
            "additionalProperties": false})");
    ConstraintState state = list->start();
    std::size_t n = 0;
    for (; list->advance(state, "{\"next\": ["); ++n) CHECK_FALSE(test::dead(*list, state));
    CHECK(n == (kMaxNesting - 2) / 2);
}

TEST_CASE("constraint: properties come in any order, those of alternatives in the schema's") {
    const test::Compiled free = test::schema(
        R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "ab": {"const": 3}},
            "required": ["b"], "additionalProperties": {"type": "null"}})");
    for (const char *text :
         {R"({"b": 2})", R"({"ab": 3, "b": 2, "a": 1})", R"({"x": null, "b": 2, "y": null})",
          R"({"abc": null, "b": 2, "ab": 3, "": null})"})
        CHECK(accepts(*free, text));
    for (const char *text : {R"({})", R"({"a": 1})", R"({"b": 2, "b": 2})", R"({"b": 2, "x": 1})",
                             R"({"b": null})", R"({"b": 2, "\u0061": null})"})
        CHECK_FALSE(accepts(*free, text));
    // After the last possible property only } is left.
    const test::Compiled closed = test::schema(
        R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "additionalProperties": false})");
    ConstraintState state = closed->start();
    REQUIRE(closed->advance(state, R"({"b":2,"a":1)"));
    ConstraintState other = state;
    CHECK_FALSE(closed->advance(other, ","));
    CHECK(closed->advance(state, "}"));
    CHECK(closed->accepting(state));
    CHECK(test::dead(*closed, state));

    const test::Compiled either = test::schema(
        R"({"anyOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]},
                      {"properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"]}]})");
    CHECK(accepts(*either, R"({"kind": "a", "x": 1})"));
    CHECK(accepts(*either, R"({"kind": "b", "y": ""})"));
    CHECK_FALSE(accepts(*either, R"({"kind": "b", "x": 1})"));
    CHECK_FALSE(accepts(*either, R"({"x": 1, "kind": "a"})"));
}

TEST_CASE("constraint: large objects and counts cost little") {
    std::string properties, text;
    for (int i = 0; i < 100; ++i) {
        properties += cat(i > 0 ? "," : "", "\"property_", i, "\": {\"type\": \"integer\"}");
        if (i % 3 == 0) text += cat(i > 0 ? ", " : "{", "\"property_", i, "\": ", i);
    }
    const test::Compiled large = test::schema(cat("{\"properties\": {", properties, "}}"));
    CHECK(accepts(*large, text + "}"));
    CHECK_FALSE(accepts(*large, R"({"property_5": 1, "property_4": 1})"));
    CHECK(large->automaton().n_states() < 20000);

    const test::Compiled counted = test::schema(
        R"({"type": "array", "minItems": 1000, "maxItems": 100000,
            "items": {"type": "string", "minLength": 2, "maxLength": 1000000}})");
    CHECK(counted->automaton().n_states() < 200);
    std::string items;
    for (int i = 0; i < 999; ++i) items += "\"ab\",";
    CHECK(accepts(*counted, cat("[", items, "\"ab\"]")));
    CHECK_FALSE(accepts(*counted, cat("[", items.substr(5), "\"ab\"]")));
    CHECK_FALSE(accepts(*counted, cat("[", items, "\"a\"]")));
    CHECK_FALSE(accepts(*counted, cat("[", items, "\"", std::string(1000001, 'x'), "\"]")));
    CHECK(accepts(*counted, cat("[", items, "\"", std::string(1000000, 'x'), "\"]")));
}

TEST_CASE("constraint: calls of each declared tool") {
    const std::string tools = R"([
        {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object",
            "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
        {"type": "function", "function": {"name": "now"}},
        {"type": "builtin"},
        {"type": "function", "function": {"name": "tree", "parameters": {"$defs": {"n": {"type": "object",
            "properties": {"l": {"$ref": "#/$defs/n"}, "all": {"$ref": "#"}}}}, "$ref": "#/$defs/n"}}}])";
    const test::Compiled compiled = compile_constraint(ConstraintKind::tool_calls, tools);
    const auto allowed = [&](std::string_view tool, std::string_view text) {
        for (const char *number : {":0", ":10"})
            if (!accepts(*compiled, cat("functions.", tool, number, "\xFF", text))) return false;
        return true;
    };
    CHECK(allowed("get_time", R"({"city": "Cairo"})"));
    CHECK_FALSE(allowed("get_time", "{}"));
    CHECK(allowed("now", "{}"));
    CHECK_FALSE(allowed("now", R"({"city": "Cairo"})"));
    CHECK(allowed("tree", R"({"all": {"l": {}}, "l": {"l": {}}})"));
    CHECK_FALSE(allowed("unknown", "{}"));
    for (const char *id : {"functions.now", "functions.now:", "functions.now:01", "now:0",
                           "functions.now:-1", "functions.get_time:0"})
        CHECK_FALSE(accepts(*compiled, cat(id, "\xFF{}")));
    const auto error = [](std::string_view text) {
        return test::error_of([&] { compile_constraint(ConstraintKind::tool_calls, text); }).text;
    };
    CHECK(error("[]") == "tools: expected an array with functions");
    CHECK(error(R"([{"function": {}}])") == "tools[0].function.name: expected a string");
    CHECK(error(R"([{"function": {"name": "f", "parameters": {"not": {}}}}])") ==
          "tools[0].function.parameters#/not: this keyword is not supported");
    CHECK(error(R"([{"function": {"name": "f", "parameters": false}}])") ==
          "arguments of f: no value satisfies this schema");
}

TEST_CASE("constraint: a state is a small value, and what it stands for only moves on") {
    static_assert(std::is_trivially_copyable_v<ConstraintState>);
    CHECK(sizeof(ConstraintState) <= 640);
    const test::Compiled any = test::schema("{}");
    ConstraintState state = any->start();
    REQUIRE(any->advance(state, "[1"));
    const ConstraintState fork = state;
    REQUIRE(any->advance(state, "]"));
    CHECK(any->accepting(state));
    CHECK(test::dead(*any, state));
    CHECK_FALSE(any->accepting(fork));
    CHECK_FALSE(test::dead(*any, fork));
    CHECK_FALSE(test::dead(*any, any->start()));
    CHECK(test::dead(*any, ConstraintState{}));
    CHECK_FALSE(any->accepting(ConstraintState{}));
}

TEST_CASE("constraint: what is too much is refused soon") {
    const auto repeated = [](std::string_view text, std::size_t n) {
        std::string out;
        for (std::size_t i = 0; i < n; ++i) out += text;
        return out;
    };
    std::string many, unions, alternatives, optional;
    for (int i = 0; i < 100000; ++i) many += cat(i > 0 ? "," : "", "\"", i * 7919, "\"");
    for (int i = 0; i < 1200; ++i)
        optional += cat(i > 0 ? "," : "", "\"optional_property_", i, "\": {}");
    // Which of the schemas still apply depends on every property: 2^20 sets.
    for (int i = 0; i < 20; ++i) {
        std::string properties;
        for (int k = 0; k < 20; ++k)
            properties += cat(k > 0 ? "," : "", "\"p", k, "\": {\"type\": \"",
                              i == k ? "null" : "integer", "\"}, \"q", k,
                              "\": {\"type\": \"array\", \"items\": {\"type\": [\"integer\", \"",
                              i == k ? "null" : "integer", "\"]}}");
        alternatives += cat(i > 0 ? "," : "", "{\"properties\": {", properties, "}}");
    }
    const std::string schemas[] = {
        cat("{\"enum\": [", many, "]}"),
        cat("{\"properties\": {", optional, "}}"),
        cat("{\"anyOf\": [", alternatives, "]}"),
        R"({"type": "string", "pattern": "(a|b)*a(a|b){20}"})",
        R"({"type": "string", "pattern": "[^x]y", "minLength": 60000})",
        repeated("{\"items\": ", 190) +
            "{\"items\": {\"type\": \"string\", \"pattern\": \"x{50000}\"}}" + repeated("}", 190),
        cat("{\"prefixItems\": [", repeated("{\"minimum\": 1.5, \"maximum\": 1e20},", 3000),
            "true]}"),
        cat("{\"description\": \"", repeated("x", 2 << 20), "\"}")};
    ConstraintLimits limits;
    if (test::kInstrumented) limits.max_steps /= 16;
    for (const std::string &text : schemas) {
        CAPTURE(text.substr(0, 60));
        Error error;
        const double seconds = test::seconds_of([&] {
            error = test::error_of(
                [&] { compile_constraint(ConstraintKind::json_schema, text, limits); });
        });
        CHECK(error.status == KIMI_TOO_LONG);
        CHECK(test::contains(error.text, "too complex"));
        CHECK((seconds < 3 || test::kInstrumented));
    }
    // Deep, long or recursive, but harmless.
    std::string chain = "\"d0\": {}";
    for (int i = 1; i < 5000; ++i)
        chain += cat(", \"d", i, "\": {\"$ref\": \"#/$defs/d", i - 1, "\"}");
    for (const std::string &text :
         {repeated("{\"items\": ", 190) + "{}" + repeated("}", 190),
          cat("{\"$defs\": {", chain, "}, \"$ref\": \"#/$defs/d4999\"}"),
          std::string(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}, {"items": {"$ref": "#"}}]})"),
          cat("{\"anyOf\": [", repeated("{\"$ref\": \"#\"},", 500), "{\"type\": \"null\"}]}")}) {
        CHECK(accepts(*test::schema(text), text[2] == 'i' ? "[]" : "null"));
    }
    CHECK(test::error_of([&] { test::schema(repeated("[", 100000)); }).status ==
          KIMI_INVALID_ARGUMENT);
}

TEST_CASE("constraint: no schema makes the compiler fail otherwise") {
    test::Random random(9);
    test::RandomSchema make(random);
    ConstraintLimits limits;
    limits.max_steps = 300000;
    std::size_t n_compiled = 0;
    for (int round = 0; round < 3000; ++round) {
        const std::string text = test::damaged(random, make.make());
        try {
            compile_constraint(ConstraintKind::json_schema, text, limits);
            ++n_compiled;
        } catch (const Error &error) {
            CAPTURE(text);
            CHECK((error.status == KIMI_INVALID_ARGUMENT || error.status == KIMI_UNSUPPORTED ||
                   error.status == KIMI_TOO_LONG));
        }
    }
    CHECK(n_compiled > 300);
}

TEST_CASE("constraint: any bytes may be fed to any state") {
    test::Random random(10);
    const test::Compiled compiled[] = {
        test::schema("{}"), test::regex("([a-zé]+,?)*"),
        test::schema(
            R"({"properties": {"a": {"type": "string", "maxLength": 3}, "b": {"$ref": "#"}}})")};
    for (int round = 0; round < 20000; ++round) {
        const Constraint &constraint = *test::pick(random, compiled);
        ConstraintState state = constraint.start();
        for (int i = 0; i < 30; ++i) {
            ConstraintState next = state;
            std::size_t byte = test::below(random, 256);
            if (test::below(random, 3) > 0)
                byte = static_cast<std::size_t>("{}[]\",: ab01x\\un"[byte % 16]);
            if (constraint.advance(next, static_cast<std::uint8_t>(byte))) state = next;
        }
    }
}
