#include "constraint/schema_reader.h"

#include "constraint/fixtures.h"

using namespace kimi;
using test::accepts;

namespace {

Error schema_error(std::string_view text) {
    return test::error_of([&] { test::schema(text); });
}

}  // namespace

TEST_CASE("schema reader: keywords that are not supported are named by their pointer") {
    const std::pair<const char *, const char *> cases[] = {
        {R"({"not": {}})", "schema#/not: this keyword is not supported"},
        {R"({"properties": {"a/b~c": {"if": {}}}})",
         "schema#/properties/a~1b~0c/if: this keyword is not supported"},
        {R"({"items": {"uniqueItems": true}})",
         "schema#/items/uniqueItems: this keyword is not supported"},
        {R"({"anyOf": [{}, {"multipleOf": 2}]})",
         "schema#/anyOf/1/multipleOf: this keyword is not supported"},
        {R"({"patternProperties": {}})",
         "schema#/patternProperties: this keyword is not supported"},
        {R"({"minProperties": 1})", "schema#/minProperties: this keyword is not supported"},
        {R"({"typo": 1})", "schema#/typo: this keyword is not supported"},
        {R"({"type": "object", "anyOf": [{}]})",
         "schema#/type: beside anyOf this is not supported"},
        {R"({"anyOf": [{}], "required": ["a"]})",
         "schema#/required: beside anyOf this is not supported"},
        {R"({"enum": ["a"], "type": "string", "minLength": 2})",
         "schema#/minLength: beside enum this is not supported"},
        {R"({"$ref": "#", "oneOf": []})", "schema#/oneOf: beside $ref this is not supported"},
        {R"({"allOf": [{}, {}]})", "schema#/allOf: more or less than one schema is not supported"},
        {R"({"$ref": "other.json"})",
         "schema#/$ref: a reference to another document is not supported"},
        {R"({"$ref": "#name"})", "schema#/$ref: a reference by name is not supported"},
        {"{\"pattern\": \"(?=a)\"}", "schema#/pattern: byte 0: look-around is not supported"}};
    for (const auto &[text, expected] : cases) {
        const Error error = schema_error(text);
        CHECK(error.text == expected);
        CHECK(error.status == KIMI_UNSUPPORTED);
    }
}

TEST_CASE("schema reader: malformed schemas are named by their pointer") {
    const std::pair<const char *, const char *> cases[] = {
        {"3", "schema#: expected an object or a boolean, found an integer"},
        {R"({"properties": {"a": null}})",
         "schema#/properties/a: expected an object or a boolean, found null"},
        {R"({"type": "text"})", "schema#/type: expected names of JSON types"},
        {R"({"type": ["null", 3]})", "schema#/type: expected names of JSON types"},
        {R"({"enum": "a"})", "schema#/enum: expected an array, found a string"},
        {R"({"anyOf": {}})", "schema#/anyOf: expected an array, found an object"},
        {R"({"properties": []})", "schema#/properties: expected an object, found an array"},
        {R"({"required": ["a", 1]})", "schema#/required: expected names of properties"},
        {R"({"items": [{}]})", "schema#/items: expected an object or a boolean, found an array"},
        {R"({"minItems": -1})", "schema#/minItems: expected a whole number of 0 or more"},
        {R"({"maxLength": 1.5})", "schema#/maxLength: expected a whole number of 0 or more"},
        {R"({"minimum": "1"})", "schema#/minimum: expected a number, found a string"},
        {R"({"pattern": 1})", "schema#/pattern: expected a string, found an integer"},
        {R"({"pattern": "("})", "schema#/pattern: byte 0: unmatched ("},
        {R"({"$ref": 1})", "schema#/$ref: expected a string, found an integer"},
        {R"({"$ref": "#/$defs/x"})", "schema#/$ref: there is no \"$defs\" in #"},
        {R"({"$defs": {"a": []}, "$ref": "#/$defs/a/0"})",
         "schema#/$ref: there is no \"0\" in #/$defs/a"},
        {"false", "schema: no value satisfies this schema"},
        {R"({"$ref": "#"})", "schema: no value satisfies this schema"},
        {R"({"enum": []})", "schema: no value satisfies this schema"},
        {R"({"enum": [1], "type": "string"})", "schema: no value satisfies this schema"},
        {R"({"type": "integer", "minimum": 3, "exclusiveMaximum": 3.5, "exclusiveMinimum": 3})",
         "schema: no value satisfies this schema"},
        {R"({"type": "string", "minLength": 3, "maxLength": 2})",
         "schema: no value satisfies this schema"},
        {R"({"type": "string", "pattern": "^abc$", "maxLength": 2})",
         "schema: no value satisfies this schema"},
        {R"({"type": "array", "minItems": 1, "items": false})",
         "schema: no value satisfies this schema"},
        {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
         "schema: no value satisfies this schema"},
        {R"({"properties": {"a": {}}, "required": ["b"], "additionalProperties": false})",
         "schema: no value satisfies this schema"}};
    for (const auto &[text, expected] : cases) {
        const Error error = schema_error(text);
        CHECK(error.text == expected);
        CHECK(error.status == KIMI_INVALID_ARGUMENT);
    }
    CHECK(schema_error("{").status == KIMI_INVALID_ARGUMENT);
    CHECK(test::contains(schema_error("{").text, "schema: invalid JSON"));
}

TEST_CASE("schema reader: annotations, references and other spellings") {
    const test::Compiled annotated = test::schema(
        R"({"$schema": "x", "$id": "y", "title": "t", "description": "d", "default": 1, "examples": [1],
            "format": "date", "x-order": [], "uniqueItems": false, "type": ["integer", "null"]})");
    CHECK(accepts(*annotated, "12"));
    CHECK(accepts(*annotated, "null"));
    CHECK_FALSE(accepts(*annotated, "1.5"));
    const test::Compiled referring = test::schema(
        R"({"definitions": {"a/b%": {"const": [1, {"x": "y"}]}}, "properties": {
            "p": {"$ref": "#/definitions/a~1b%25"}, "q": {"$ref": "#/properties/p"},
            "r": {"$ref": "#/properties/list/prefixItems/1"}, "list": {"prefixItems": [{}, {"type": "null"}]}}})");
    CHECK(accepts(*referring, R"({"q": [1, {"x": "y"}], "r": null})"));
    CHECK_FALSE(accepts(*referring, R"({"r": 1})"));
    // Without type, that of the other keywords.
    CHECK_FALSE(accepts(*test::schema(R"({"minLength": 1})"), "1"));
    CHECK(accepts(*test::schema(R"({"minLength": 1, "minimum": 1})"), "1"));
    CHECK(accepts(*test::schema("{}"), "1"));
    CHECK(accepts(*test::schema("true"), "{\"a\": [\"b\"]}"));
    // Properties that are not declared: none beside those that are, unless asked for.
    CHECK_FALSE(accepts(*test::schema(R"({"properties": {"a": {}}})"), R"({"b": 1})"));
    CHECK(accepts(*test::schema(R"({"properties": {"a": {}}, "additionalProperties": true})"),
                  R"({"b": 1})"));
    CHECK(accepts(*test::schema(R"({"type": "object"})"), R"({"b": 1})"));
    CHECK(accepts(*test::schema(R"({"properties": {"a": {}}, "required": ["b"]})"), R"({"b": 1})"));
    // An optional property without possible values is left out.
    const test::Compiled impossible = test::schema(
        R"({"properties": {"a": {"$ref": "#/$defs/loop"}, "b": {"type": "null"}},
            "$defs": {"loop": {"properties": {"l": {"$ref": "#/$defs/loop"}}, "required": ["l"]}}})");
    CHECK(accepts(*impossible, R"({"b": null})"));
    ConstraintState state = impossible->start();
    CHECK_FALSE(impossible->advance(state, R"({"a)"));
    CHECK(accepts(*test::schema(R"({"enum": [1, 2.50, "x", true, null, [1], {"a": {}}]})"), "2.5"));
    CHECK(accepts(*test::schema(R"({"enum": [1, 2.50, "x", true, null, [1], {"a": {}}]})"),
                  R"({"a":{}})"));
    CHECK(accepts(*test::schema(R"({"const": 2.0, "type": "integer"})"), "2.0"));
}
