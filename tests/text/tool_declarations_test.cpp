#include "text/tool_declarations.h"

#include "text/fixtures.h"

using namespace kimi;

namespace {

std::string declare(std::string_view tools) {
    return declare_tools(parse_json(tools, "test"));
}

// The declaration of one function f without its frame.
std::string function(std::string_view parameters) {
    std::string text = declare(cat(
        R"([{"type": "function", "function": {"name": "f", "parameters": )", parameters, "}}]"));
    const std::string_view head = "# Tools\n\n## functions\nnamespace functions {\n";
    if (!text.starts_with(head)) return "JSON";
    return text.substr(head.size(), text.size() - head.size() - 3);
}

// The type of one optional field x.
std::string field(std::string_view schema) {
    const std::string text = function(cat(R"({"properties": {"x": )", schema, "}}"));
    const std::string_view head = "type f = (_: {\n", tail = "\n}) => any;";
    if (!text.starts_with(head)) return text;
    return text.substr(head.size(), text.size() - head.size() - tail.size());
}

}  // namespace

TEST_CASE("tools: every golden gives its text, or its JSON where the encoder throws") {
    int n = 0;
    for (const Json &golden : test::goldens().find("tools_ts")->items) {
        const Json &ts = *golden.find("ts");
        const std::string expected =
            ts.is(Json::Kind::null) ? golden.find("json_fallback")->text : ts.text;
        CHECK(declare_tools(*golden.find("tools")) == expected);
        ++n;
    }
    CHECK(n == 14);
}

// Expected texts are those of a transcription of Moonshot's encoder in Python.
TEST_CASE("tools: comments stand in order above a field") {
    CHECK(field(R"({"type": "string", "description": "a\n\nb", "pattern": "x",
                    "maxLength": 2, "minLength": null, "default": "é\""})") ==
          "  // a\n\n  // b\n  // maxLength: 2, minLength: None, pattern: x\n"
          "  // Default: \"é\\\"\"\n  x?: string");
    CHECK(field(R"({"type": "integer", "minimum": -1.5, "maximum": true, "default": false})") ==
          "  // maximum: True, minimum: -1.5\n  // Default: False\n  x?: number");
    CHECK(field(R"({"type": "array", "items": {"type": "number", "maximum": 1}, "minItems": 1,
                    "default": [1, null]})") ==
          "  // minItems: 1\n  // Default: [1, null]\n"
          "  x?: Array<\n    // maximum: 1\n    number\n  >");
    CHECK(field(R"({"type": "boolean", "maximum": 1, "default": null})") == "  x?: boolean");
}

TEST_CASE("tools: types print as the reference prints them") {
    const std::pair<const char *, const char *> types[] = {
        {"true", "any"},
        {"false", "null"},
        {"{}", "any"},
        {R"({"type": "custom"})", "custom"},
        {R"({"type": "array", "items": {}})", "Array<any>"},
        {R"({"type": "array", "items": true})", "Array<any>"},
        {R"({"type": "object"})", "{}"},
        {R"({"type": ["object", "array", "integer", "null"]})", "{} | Array<any> | number | null"},
        {R"({"enum": ["a", 1, 1.0, null, true]})", "\"a\" | 1 | 1.0 | None | True"},
        {R"({"enum": ["a", null], "type": ["null", "string"]})", "\"a\" | None"},
        {R"({"enum": [true, 1.5], "type": "number"})", "True | 1.5"},
        {R"({"anyOf": [{"enum": ["a"]}, {"type": "object", "properties": {"y": {}}}]})",
         "\"a\" | {\n    y?: any\n  }"},
        {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
         "{\n    [k: string]: number\n  }"},
        {R"({"type": "object", "additionalProperties": null})", "{}"},
    };
    for (const auto &pair : types) {
        const auto &schema = pair.first;
        const auto &expected = pair.second;
        CAPTURE(schema);
        CHECK(field(schema) == cat("  x?: ", expected));
    }
}

TEST_CASE("tools: what the reference refuses makes all tools JSON") {
    for (const char *schema : {"null",
                               "5",
                               "\"string\"",
                               "[]",
                               R"({"description": "no type"})",
                               R"({"oneOf": []})",
                               R"({"type": ["string", "date"]})",
                               R"({"type": "array", "items": [{}]})",
                               R"({"enum": ["a"], "type": "integer"})",
                               R"({"enum": [1.5], "type": "integer"})",
                               R"({"enum": [1], "type": "boolean"})",
                               R"({"enum": ["a"], "type": ["string", "integer"]})",
                               R"({"enum": [1], "type": ["null", "string"]})",
                               R"({"enum": [], "type": []})",
                               R"({"enum": null})",
                               R"({"anyOf": null})",
                               R"({"type": "string", "description": 5})",
                               R"({"$ref": "#/definitions/A"})",
                               R"({"$ref": 5})",
                               R"({"type": "object", "properties": null})",
                               R"({"type": "object", "additionalProperties": 5})",
                               R"({"type": "object", "properties": {}, "required": null})",
                               R"({"type": "object", "properties": {}, "required": [[]]})"}) {
        CAPTURE(schema);
        CHECK(field(schema) == "JSON");
    }
    CHECK(
        declare(R"([{"type": "function", "function": {"name": "b", "parameters": {"type":
              "object", "properties": {"x": {"not": {}}}}}},
              {"function": {"name": "</a>&'世"}, "type": "function"}])") ==
        R"([{"function":{"name":"b","parameters":{"properties":{"x":{"not":{}}},"type":"object"}},)"
        R"("type":"function"},{"function":{"name":"</a>&'世"},"type":"function"}])");
}

TEST_CASE("tools: descriptions that are not printed are not looked at") {
    CHECK(field(R"({"anyOf": [{"type": "string", "description": 5}]})") == "  x?: string");
    CHECK(field(R"({"type": "string", "description": 0})") == "  x?: string");
    CHECK(function(R"({"description": 5})") == "type f = (_: {}) => any;");
}

TEST_CASE("tools: definitions are blocks, self references name the parameters") {
    CHECK(function(R"({"$defs": {"B": {"type": "object", "properties": {"a": {"$ref": "#"}}},
                                 "A": {"type": "string", "description": "d"}},
                       "properties": {"x": {"$ref": "#/$defs/A", "description": "an A"},
                                      "y": {"$ref": "#/$defs/path/B"}}, "required": ["y"]})") ==
          "// d\ninterface A string\ninterface B {\n  a?: parameters\n}\n"
          "type f = (_: {\n  y: B,\n  // an A\n  x?: A\n}) => any;");
    CHECK(function(R"({"properties": {"z": {}, "b": {"$ref": "#"}, "a": {}}, "required": ["z"],
                       "additionalProperties": false})") ==
          "interface parameters {\n  a?: any,\n  b?: parameters,\n  z: any\n}\n"
          "type f = (_: parameters) => any;");
    // Known from where they stand on: a.$defs comes before b, not before a itself or A.
    const std::string nested = R"({"type": "object", "$defs": {"D": {"type": "null"}}})";
    CHECK(function(cat(R"({"properties": {"a": )", nested, R"(, "b": {"$ref": "#/$defs/D"}}})")) ==
          "interface D null\ntype f = (_: {\n  a?: {},\n  b?: D\n}) => any;");
    CHECK(function(cat(R"({"properties": {"a": )", nested, R"(, "A": {"$ref": "#/$defs/D"}}})")) ==
          "JSON");
    CHECK(function(R"({"$defs": {"A": true}})") == "JSON");
    CHECK(function(R"({"$defs": null})") == "type f = (_: {}) => any;");
}

TEST_CASE("tools: functions without the usual members") {
    const auto named = [](std::string_view body) {
        return declare(cat(R"([{"type": "function", "function": )", body, "}]"));
    };
    const auto framed = [](std::string_view text) {
        return cat("# Tools\n\n## functions\nnamespace functions {\n", text, "\n}\n");
    };
    CHECK(named(R"({"description": "d"})") == framed("// d\ntype function = (_: {}) => any;"));
    CHECK(named(R"({"name": null})") == framed("type None = (_: {}) => any;"));
    CHECK(named(R"({"name": "a", "parameters": []})") == framed("type a = (_: {}) => any;"));
    CHECK(named(R"({"name": "a", "parameters": [1]})").starts_with("[{"));
    CHECK(named("{}") == R"([{"function":{},"type":"function"}])");
    CHECK(declare(R"([{"type": "web_search"}])") == R"([{"type":"web_search"}])");
    CHECK(declare("[{}, {}]") == "[{},{}]");
}

TEST_CASE("tools: the deepest nesting that JSON allows is printed") {
    std::string schema = R"({"type": "string"})";
    for (int i = 0; i < 97; ++i)
        schema = cat(R"({"properties": {"x": )", schema, R"(}, "type": "object"})");
    const std::string text = declare(
        cat(R"([{"type": "function", "function": {"name": "f", "parameters": )", schema, "}}]"));
    CHECK(test::contains(text, test::repeat("  ", 97) + "x?: string\n"));
}
