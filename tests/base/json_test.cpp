#include "base/json.h"

#include "check.h"

using namespace kimi;

// Expected texts are what Python 3.11's json.loads and json.dumps give.
TEST_CASE("json: values print as Python prints them") {
    const auto round = [](std::string_view text) { return dump_json(parse_json(text, "x")); };
    CHECK(round(R"({"b":1,"a":[true,null,"x"]})") == R"({"b": 1, "a": [true, null, "x"]})");
    CHECK(round("-0") == "0");
    CHECK(round("123456789012345678901234567890") == "123456789012345678901234567890");
    CHECK(round("[1.0, 1e5, 1e16, 1e-5, 0.0001, 123456.789, -0.0, 1.5e300]") ==
          "[1.0, 100000.0, 1e+16, 1e-05, 0.0001, 123456.789, -0.0, 1.5e+300]");
    CHECK(round(R"("\u00e9\n\u0001\"\\\/ \ud83d\ude00")") == "\"é\\n\\u0001\\\"\\\\/ 😀\"");
}

TEST_CASE("json: the last of equal keys wins and keeps the first one's place") {
    CHECK(dump_json(parse_json(R"({"a":1,"b":2,"a":3})", "x"), ",", ":") == R"({"a":3,"b":2})");
}

TEST_CASE("json: equal keys can be refused") {
    const auto parse = [](std::string_view text) {
        return parse_json(text, "x", KIMI_CORRUPT, EqualKeys::refused);
    };
    CHECK_NOTHROW(parse(R"({"a":{"a":1},"b":{"a":1}})"));
    const Error error = test::error_of([&] { parse(R"({"b":{"a":1,"c":2,"a":1}})"); });
    CHECK(error.status == KIMI_CORRUPT);
    CHECK(error.text == "x: invalid JSON: the key \"a\" appears twice");
}

TEST_CASE("json: bad input is named with its byte offset") {
    for (const char *text : {"", "{", "[1,]", "{\"a\":}", "nul", "\"\xff\"", "\"\\ud800\"", "1 2",
                             "01", "1e999", "\"\x01\""}) {
        CAPTURE(text);
        const Error error = test::error_of([&] { parse_json(text, "file.json"); });
        CHECK(error.status == KIMI_INVALID_ARGUMENT);
        CHECK(test::contains(error.text, "file.json: invalid JSON at byte "));
    }
    const std::string_view with_nul("{}\0{}", 5);
    CHECK(test::contains(test::error_of([&] { parse_json(with_nul, "x"); }).text,
                         "x: invalid JSON at byte 3"));
}

TEST_CASE("json: deep nesting is refused, not a stack overflow") {
    CHECK_NOTHROW(parse_json(std::string(200, '[') + std::string(200, ']'), "x"));
    const std::string deep(1000000, '[');
    CHECK(test::contains(test::error_of([&] { parse_json(deep, "x"); }).text, "deeper than 200"));
}
