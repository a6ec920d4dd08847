#include <cstdio>
#include <ctime>

#include "text/fixtures.h"

using namespace kimi;

namespace {

// Processor time of the best of a few runs, in seconds: others on the machine do not count.
double seconds(const std::string &text, bool specials) {
    double best = 1e9;
    for (int run = 0; run < 3; ++run) {
        const std::clock_t start = std::clock();
        const std::size_t n = test::k26().encode(text, specials).size();
        const std::clock_t time = std::clock() - start;
        CHECK(n > 0);
        best = std::min(best, static_cast<double>(time) / CLOCKS_PER_SEC);
    }
    return best;
}

std::string filled(std::string_view pattern, std::size_t bytes) {
    return test::repeat(pattern, bytes / pattern.size());
}

std::string random_text(std::string_view alphabet, std::size_t bytes) {
    test::Random random(1);
    std::string text;
    while (text.size() < bytes) text += alphabet[test::below(random, alphabet.size())];
    return text;
}

}  // namespace

TEST_CASE("speed: ordinary text and code") {
    const std::pair<const char *, std::string> files[] = {
        {"English", test::source("LICENSE")},
        {"C header", test::source("include/kimi/kimi.h")},
        {"JSON", test::data("nano-k2/generate.json")},
    };
    for (const auto &[name, path] : files) {
        const std::string text = filled(read_file(path, 1 << 20), 1 << 20);
        const double rate = static_cast<double>(text.size()) / seconds(text, true) / 1e6;
        std::printf("text: encode %-8s %6.1f MB/s\n", name, rate);
        if (!test::kInstrumented) CHECK(rate > 5);
    }
}

TEST_CASE("speed: no input takes more than linear time") {
    const std::string_view patterns[] = {" ",
                                         "\n",
                                         "A",
                                         "a",
                                         "'",
                                         "!",
                                         "\xE4\xB8\xAD",
                                         "\xCC\x81",
                                         "A\xCC\x81",
                                         " \n",
                                         "\r\n ",
                                         "aA",
                                         "A'",
                                         "' ",
                                         "1",
                                         "<|",
                                         "<|im_end",
                                         "<|reserved_token_",
                                         "[",
                                         "\x1C!",
                                         "abcdefghijkl"};
    const auto check = [](std::string_view name, const std::string &small, const std::string &large,
                          bool specials) {
        double ratio = 1e9;  // 4 if linear, 16 if quadratic; measured again if others disturbed it
        for (int attempt = 0; attempt < 3 && ratio >= 10; ++attempt)
            ratio = std::min(ratio,
                             seconds(large, specials) / std::max(seconds(small, specials), 1e-5));
        INFO(name, specials ? " with specials: " : ": ", ratio,
             " times as long for 4 times as much");
        CHECK(ratio < 10);
    };
    // A piece has at most 25,000 characters, so merging is at its slowest below that.
    for (const std::size_t bytes : {6000, 40000}) {
        for (const std::string_view pattern : patterns)
            for (const bool specials : {false, true})
                check(pattern, filled(pattern, bytes), filled(pattern, 4 * bytes), specials);
        for (const std::string_view alphabet :
             {"abcdefghijklmnopqrstuvwxyz", "aA1! '\n", "<|im_endrsv>"})
            check(alphabet, random_text(alphabet, bytes), random_text(alphabet, 4 * bytes), true);
    }
}
