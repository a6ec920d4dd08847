#include "constraint/regex.h"

#include <algorithm>
#include <regex>

#include "constraint/fixtures.h"
#include "text/utf8.h"

using namespace kimi;
using test::accepts;

namespace {

Error compile_error(std::string_view pattern) {
    return test::error_of([&] { test::regex(pattern); });
}

std::string random_atom(test::Random &random, int depth);

std::string random_pattern(test::Random &random, int depth) {
    std::string out;
    const std::size_t n_alternatives = 1 + test::below(random, 2);
    for (std::size_t i = 0; i < n_alternatives; ++i) {
        if (i > 0) out += '|';
        const std::size_t n = test::below(random, 4);
        for (std::size_t k = 0; k < n; ++k) {
            out += random_atom(random, depth);
            constexpr const char *kQuantifiers[] = {"",    "",      "",    "",      "*",
                                                    "+",   "?",     "{2}", "{1,3}", "{2,}",
                                                    "{0}", "{0,2}", "*?",  "+?",    "??"};
            out += test::pick(random, kQuantifiers);
        }
    }
    return out;
}

std::string random_atom(test::Random &random, int depth) {
    constexpr const char *kAtoms[] = {"a",      "b",     "c",    "1",       "_",       " ",
                                      ".",      "\\d",   "\\w",  "\\s",     "\\D",     "\\W",
                                      "\\S",    "[ab]",  "[^a]", "[a-c]",   "[^1-9_]", "[\\d_]",
                                      "[b\\s]", "\\x61", "\\.",  "[\\]x-]", "\\u0062", "\\n"};
    if (depth > 0 && test::below(random, 3) == 0)
        return (test::below(random, 2) == 0 ? "(" : "(?:") + random_pattern(random, depth - 1) +
               ")";
    return test::pick(random, kAtoms);
}

// The characters of which a pattern for one character is made.
void check_chars(std::string_view pattern, Spelling spelling, bool (*expected)(char32_t),
                 std::string (*spelled)(char32_t)) {
    WorkMeter meter{ConstraintLimits{}};
    const Fragment fragment = compile_regex(pattern, Anchoring::whole, spelling, "regex", meter);
    const Constraint constraint(fragment_nfa(fragment), meter);
    for (char32_t c = 0; c < 0x110000; ++c) {
        if (c == 0xD800) c = 0xE000;
        if (accepts(constraint, spelled(c)) == expected(c)) continue;
        FAIL(pattern, ": wrong for U+", static_cast<std::uint32_t>(c));
    }
}

}  // namespace

TEST_CASE("regex: random expressions match what std::regex matches") {
    test::Random random(1);
    std::size_t n_matches = 0, n_refused = 0;
    const int rounds = test::kInstrumented ? 100 : 600;
    for (int round = 0; round < rounds; ++round) {
        const std::string pattern = random_pattern(random, 2);
        CAPTURE(pattern);
        // The other executor of libstdc++ takes exponential time.
        const std::regex expected(pattern,
                                  std::regex::ECMAScript | std::regex_constants::__polynomial);
        test::Compiled compiled;
        try {
            compiled = test::regex(pattern);
        } catch (const Error &error) {
            if (error.status == KIMI_TOO_LONG && ++n_refused < 5) continue;  // too complex
            CHECK(error.text == "regex: no text matches it");
        }
        for (int i = 0; i < 60; ++i) {
            std::string text;
            const std::size_t n = test::below(random, 7);
            for (std::size_t k = 0; k < n; ++k) text += "aabbc1_ x.\n]-"[test::below(random, 13)];
            CAPTURE(text);
            const bool matches = std::regex_match(text, expected);
            const bool got = compiled != nullptr && accepts(*compiled, text);
            n_matches += matches;
            CHECK(got == matches);
        }
    }
    CHECK(n_matches > 5 * static_cast<std::size_t>(rounds));
}

TEST_CASE("regex: classes hold the characters they name, in UTF-8") {
    const auto plain = [](char32_t c) { return test::utf8(c); };
    check_chars(
        ".", Spelling::plain,
        [](char32_t c) { return c != '\n' && c != '\r' && c != 0x2028 && c != 0x2029; }, plain);
    check_chars(
        "[^]", Spelling::plain, [](char32_t) { return true; }, plain);
    check_chars(
        "[^é-\\u{1F600}x]", Spelling::plain,
        [](char32_t c) { return c != 'x' && (c < 0xE9 || c > 0x1F600); }, plain);
    check_chars(
        "[\\x7f-\\u0800\\uFFFD-\\uD800\\uDC01]", Spelling::plain,
        [](char32_t c) { return (c >= 0x7F && c <= 0x800) || (c >= 0xFFFD && c <= 0x10001); },
        plain);
    check_chars(
        "\\W", Spelling::plain,
        [](char32_t c) { return c >= 0x80 || !(std::isalnum(static_cast<int>(c)) || c == '_'); },
        plain);
    // In JSON strings each character has one spelling, that of json.dumps().
    const auto json = [](char32_t c) {
        const std::string quoted = test::json_string(test::utf8(c));
        return quoted.substr(1, quoted.size() - 2);
    };
    check_chars(
        "[^]", Spelling::json, [](char32_t) { return true; }, json);
    check_chars(
        "[^]", Spelling::json, [](char32_t c) { return c >= 0x20 && c != '"' && c != '\\'; },
        plain);
    check_chars(
        "[\\x05-\"z]", Spelling::json, [](char32_t c) { return (c >= 5 && c <= '"') || c == 'z'; },
        json);
}

TEST_CASE("regex: only valid UTF-8 is matched") {
    const test::Compiled any = test::regex("[^]*");
    test::Random random(2);
    for (int round = 0; round < 20000; ++round) {
        std::string text;
        for (std::size_t i = test::below(random, 6); i > 0; --i)
            text +=
                static_cast<char>(test::below(random, 2) == 0 ? 0x80 + test::below(random, 0x80)
                                                              : 0xC0 + test::below(random, 0x40));
        CHECK(accepts(*any, text) == (find_invalid_utf8(text) == std::string::npos));
    }
}

TEST_CASE("regex: the dialect's corners") {
    const auto matches = [](std::string_view pattern, std::string_view text) {
        return accepts(*test::regex(pattern), text);
    };
    CHECK(matches("^ab$", "ab"));
    CHECK_FALSE(matches("^ab$", "xab"));
    CHECK(matches("^a$|^b", "b"));
    CHECK(matches("", ""));
    CHECK(matches("(?<name>a)(?P<other>b)", "ab"));
    CHECK(matches("a{,3}", "a{,3}"));
    CHECK(matches("a{b}]", "a{b}]"));
    CHECK(matches("[\\w-.]+@", "a-b.c@"));
    CHECK(matches("[a-]+", "a-"));
    CHECK(matches("[-a\\-]+", "a-"));
    CHECK(matches("\\cJ\\0\\t\\v", std::string_view("\n\0\t\v", 4)));
    CHECK(matches("[\\b]", "\b"));
    CHECK(matches("\\uD83D\\uDE00\\u{1F600}😀", "😀😀😀"));
    CHECK(matches("\\/\\-\\é", "/-é"));
    CHECK(matches("(a|b){3}", "aba"));
    CHECK(matches("(|a)+b", "aaab"));
    CHECK(matches("(a*)*b", "aab"));
    CHECK(matches("x{100,200}", std::string(150, 'x')));
    CHECK_FALSE(matches("x{100,200}", std::string(201, 'x')));
}

TEST_CASE("regex: what is not supported is named, with its place") {
    const std::pair<const char *, const char *> unsupported[] = {
        {"a(?=b)", "regex: byte 1: look-around is not supported"},
        {"(?<!b)", "regex: byte 0: look-around is not supported"},
        {"(a)\\1", "regex: byte 3: a back reference is not supported"},
        {"(?<n>a)\\k<n>", "regex: byte 7: a back reference is not supported"},
        {"\\bword", "regex: byte 0: word borders are not supported"},
        {"\\p{L}", "regex: byte 0: a Unicode property is not supported"},
        {"(?i)a", "regex: byte 0: this kind of group is not supported"},
        {"a^b", "regex: byte 1: ^ inside an expression is not supported"},
        {"a(b$)", "regex: byte 3: $ inside an expression is not supported"},
        {"a$b", "regex: byte 1: $ inside an expression is not supported"},
        {"a{70000}", "regex: byte 1: a count over 65535 is not supported"},
        {"\\01", "regex: byte 0: an octal escape is not supported"}};
    for (const auto &[pattern, text] : unsupported) {
        const Error error = compile_error(pattern);
        CHECK(error.status == KIMI_UNSUPPORTED);
        CHECK(error.text == text);
    }
    const std::pair<const char *, const char *> invalid[] = {
        {"*a", "regex: byte 0: nothing to repeat"},
        {"a**", "regex: byte 2: two quantifiers"},
        {"a{2}{3}", "regex: byte 4: two quantifiers"},
        {"a|+", "regex: byte 2: nothing to repeat"},
        {"(a", "regex: byte 0: unmatched ("},
        {"a)", "regex: byte 1: unmatched )"},
        {"x[a", "regex: byte 1: unmatched ["},
        {"(?<n", "regex: byte 0: unmatched <"},
        {"[b-a]", "regex: byte 1: the range is out of order"},
        {"a{3,2}", "regex: byte 1: the counts are out of order"},
        {"a\\", "regex: byte 1: \\ at the end"},
        {"\\q", "regex: byte 0: unknown escape"},
        {"\\x1", "regex: byte 0: expected 2 hex digits"},
        {"\\uD800", "regex: byte 0: no Unicode character"},
        {"\\uD800\\u0041", "regex: byte 0: no Unicode character"},
        {"\\u{110000}", "regex: byte 0: no Unicode character"},
        {"\\u{}", "regex: byte 0: expected \\u{X} with 1 to 6 hex digits"},
        {"a\xFF", "regex: byte 1: invalid UTF-8"},
        {"a[]", "regex: no text matches it"}};
    for (const auto &[pattern, text] : invalid) {
        const Error error = compile_error(pattern);
        CHECK(error.status == KIMI_INVALID_ARGUMENT);
        CHECK(error.text == text);
    }
}

TEST_CASE("regex: explosive expressions are refused soon") {
    const std::string patterns[] = {"(a|b)*a(a|b){20}",
                                    "(((a{1000}){1000}){1000}){1000}",
                                    "((((()*)*){60000}){60000}){60000}",
                                    "(([^]{0,60000}){0,60000}){0,60000}",
                                    "(x+x+)+(y{0,300}z{0,300}){300}",
                                    std::string(5000, '(') + std::string(5000, ')'),
                                    [] {
                                        std::string nested = "a";
                                        for (int i = 0; i < 90; ++i)
                                            nested = "(" + nested + "?){9}";
                                        return nested;
                                    }()};
    for (const std::string &pattern : patterns) {
        CAPTURE(pattern.substr(0, 40));
        CHECK(compile_error(pattern).status == KIMI_TOO_LONG);
    }
}

TEST_CASE("regex: no bytes make the compiler fail otherwise") {
    test::Random random(3);
    ConstraintLimits limits;
    limits.max_steps = 100000;
    const std::string_view alphabet = "ab01()[]{}|*+?.^$\\,-:=!<>dwsDWSbBuxpk\xC3\xA9\xFF";
    for (int round = 0; round < 10000; ++round) {
        std::string pattern;
        for (std::size_t i = test::below(random, 14); i > 0; --i)
            pattern += alphabet[test::below(random, alphabet.size())];
        try {
            compile_constraint(ConstraintKind::regex, pattern, limits);
        } catch (const Error &error) {
            CHECK((error.status == KIMI_INVALID_ARGUMENT || error.status == KIMI_UNSUPPORTED ||
                   error.status == KIMI_TOO_LONG));
        }
    }
}
