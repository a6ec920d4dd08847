// The command line: what is refused, and how.
#include "chat/program.h"
#include "check.h"

using chat::kimi_chat;
using chat::Result;
using kimi::test::contains;

namespace {

// A mistake: exit status 2, nothing on stdout, one line on stderr that names the culprit.
void check_refused(const chat::Arguments &options, std::string_view culprit) {
    const Result result = chat::run(kimi_chat(options));
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("kimi-chat: "));
    CHECK(result.err.find('\n') == result.err.size() - 1);
    CHECK(contains(result.err, culprit));
}

}  // namespace

TEST_CASE("options: a mistake is named and ends with status 2") {
    check_refused({"--bogus"}, "--bogus");
    check_refused({"-x"}, "x");
    check_refused({"Good morning."}, "Good morning.");
    check_refused({"--seed"}, "--seed");
    check_refused({"--stats=1"}, "--stats");
    for (const char *value : {"", "x", "-1", "1.5", "18446744073709551616"})
        check_refused({"--seed", value}, "--seed");
    for (const char *value : {"", "1k", "4294967296"})
        check_refused({"--max-tokens", value}, "--max-tokens");
    for (const char *value : {"", "warm", "-0.1", "nan", "inf", "1e99"})
        check_refused({"--temperature", value}, "--temperature");
    for (const char *value : {"1.01", "-1", ""}) check_refused({"--top-p", value}, "--top-p");
    for (const char *value : {"64", "-1", "tree", ""}) check_refused({"--draft", value}, "--draft");
    for (const char *value : {"", ",", "1,", ",1", "1,,2", "1 2", "-1", "1,2147483648", "1,x"})
        check_refused({"--raw-tokens", value}, "--raw-tokens");
}

TEST_CASE("options: a deployment is needed") {
    const Result result = chat::run({KIMI_CHAT, "--prompt", "Hello!"});
    CHECK(result.status == 2);
    CHECK(contains(result.err, "--deployment"));
}

TEST_CASE("options: text that is not UTF-8 is refused with its place") {
    // A stray byte, a cut character, a long form, a surrogate, a code point above U+10FFFF.
    for (const char *bytes : {"\xff", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
        check_refused({"--prompt", std::string("a\xc3\xa4") + bytes},
                      "--prompt is not UTF-8 at byte 3");
        check_refused({"--system", std::string("abcd") + bytes}, "--system is not UTF-8 at byte 4");
    }
}

TEST_CASE("options: --help and --version go to stdout") {
    const Result help = chat::run({KIMI_CHAT, "--help"});
    CHECK(help.status == 0);
    CHECK(help.err.empty());
    for (const char *word : {"--raw-tokens", "NO_COLOR", "Exit status"})
        CHECK(contains(help.out, word));
    const Result version = chat::run({KIMI_CHAT, "--version"});
    CHECK(version.status == 0);
    CHECK(version.out == "kimi-chat 0.1.0\n");
}
