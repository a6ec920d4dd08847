#include "text/stop_strings.h"

#include <algorithm>
#include <random>

#include "check.h"

using namespace kimi;

namespace {

// Of a whole text at once.
std::pair<std::string, bool> naive_stop(const std::string &text,
                                        const std::vector<std::string> &stops) {
    for (std::size_t end = 1; end <= text.size(); ++end) {
        std::size_t longest = 0;
        for (const std::string &stop : stops)
            if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
        if (longest > 0) return {text.substr(0, end - longest), true};
    }
    return {text, false};
}

}  // namespace

TEST_CASE("stop strings: random texts in random pieces") {
    std::mt19937 random(3);
    std::size_t n_stopped = 0;
    for (int round = 0; round < 20000; ++round) {
        const auto word = [&](std::size_t n) {
            std::string out;
            while (out.size() < n) out += "ab"[random() % 2];
            return out;
        };
        std::vector<std::string> strings;
        for (std::size_t n = random() % 4; n > 0; --n) strings.push_back(word(1 + random() % 6));
        const std::string text = word(random() % 30);
        StopStrings stops(strings);
        std::string got;
        bool stopped = false;
        for (std::size_t at = 0; at < text.size() && !stopped;) {
            const std::size_t n = std::min<std::size_t>(random() % 5, text.size() - at);
            stopped = stops.push(text.substr(at, n), got);
            at += n;
        }
        if (!stopped) stops.flush(got);
        CAPTURE(text);
        CHECK(std::pair(got, stopped) == naive_stop(text, strings));
        n_stopped += stopped;
    }
    CHECK(n_stopped > 5000);
}

TEST_CASE("stop strings: only what may begin one is held back") {
    StopStrings stops({"<end>", "éa"});
    std::string text;
    CHECK_FALSE(stops.push("x<en", text));
    CHECK(text == "x");
    CHECK_FALSE(stops.push("<é", text));
    CHECK(text == "x<en<");
    CHECK_FALSE(stops.push("b", text));
    CHECK(text == "x<en<éb");
    CHECK(stops.push("<end>y", text));
    CHECK(text == "x<en<éb");
}
