// The README's program is the one in examples/, compiles as strict C99, and does what it says.
#include <algorithm>

#include "chat/program.h"
#include "check.h"

using kimi::test::source;

namespace {

// The first block of C in the README.
std::string c_block(const std::string &readme) {
    static const std::string kBegin = "\n```c\n", kEnd = "\n```\n";
    const std::size_t at = readme.find(kBegin);
    REQUIRE(at != std::string::npos);
    const std::size_t begin = at + kBegin.size(), end = readme.find(kEnd, begin);
    REQUIRE(end != std::string::npos);
    return readme.substr(begin, end + 1 - begin);
}

}  // namespace

TEST_CASE("readme: its program is examples/hello.c, of about 40 lines") {
    const std::string readme = kimi::read_file(source("README.md"), 1 << 20);
    const std::string program = kimi::read_file(source("examples/hello.c"), 1 << 20);
    CHECK(c_block(readme) == program);
    CHECK(std::count(program.begin(), program.end(), '\n') <= 42);
}

TEST_CASE("readme: its program compiles as strict C99") {
    const chat::Result result =
        chat::run({"cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                   "-I" + source("include"), source("examples/hello.c")});
    CHECK(result.status == 0);
    CHECK(result.err == "");
}

TEST_CASE("readme: its program answers") {
    chat::Result result = chat::run({KIMI_HELLO, KIMI_MODELS "/nano-k2/deployment.json"});
    CHECK(result.status == 0);
    CHECK(result.out.starts_with("DFlash is a block diffusion drafter."));
    CHECK(result.err.empty());
    result = chat::run({KIMI_HELLO, "missing.json"});
    CHECK(result.status == 1);
    CHECK(kimi::test::contains(result.err, "missing.json"));
}
