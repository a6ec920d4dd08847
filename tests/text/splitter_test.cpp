#include "text/splitter.h"

#include <functional>

#include "text/fixtures.h"
#include "text/unicode.h"

using namespace kimi;

namespace {

std::vector<std::string> pieces_of(std::string_view text) {
    std::vector<std::string> pieces;
    while (!text.empty()) {
        const std::size_t size = first_piece(text);
        REQUIRE(size > 0);
        REQUIRE(size <= text.size());
        pieces.emplace_back(text.substr(0, size));
        text.remove_prefix(size);
    }
    return pieces;
}

// The eight rules as a backtracking matcher, as a regular expression engine would run them.
namespace naive {

using Text = std::u32string;
// What follows at a position: the end of the whole match, or nothing.
using End = std::optional<std::size_t>;
using Next = std::function<End(std::size_t)>;
using Is = std::function<bool(char32_t)>;

Is any_of(int bits) {
    return [=](char32_t c) { return (char_class(c) & bits) != 0; };
}
Is none_of(int bits) {
    return [=](char32_t c) { return (char_class(c) & bits) == 0; };
}
// A letter is what is neither number, white space nor symbol; a Han number or symbol is none.
const Is is_symbol = any_of(kSymbol);
const Is is_prefix = [](char32_t c) {
    return c != '\r' && c != '\n' && (char_class(c) & (kSymbol | kSpace)) != 0;
};

// Greedy: as many as possible up to `most`, then fewer down to `least`.
End repeat(const Text &t, std::size_t at, const Is &is, std::size_t least, std::size_t most,
           const Next &next) {
    std::size_t n = 0;
    while (n < most && at + n < t.size() && is(t[at + n])) ++n;
    for (std::size_t k = n + 1; k-- > least;)
        if (const End end = next(at + k)) return end;
    return std::nullopt;
}
constexpr std::size_t kMany = 1000;

End done(std::size_t at) {
    return at;
}

End tail(const Text &t, std::size_t at) {
    for (const char32_t *word : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"}) {
        std::size_t n = 0;
        const auto folds = [](char32_t c, char32_t lower) {
            return c == lower || c == lower - 32 || (lower == 's' && c == 0x17F);
        };
        while (word[n] != 0 && at + n < t.size() &&
               (word[n] == '\'' ? t[at + n] == '\'' : folds(t[at + n], word[n])))
            ++n;
        if (word[n] == 0) return at + n;
    }
    return at;
}

End word(const Text &t, std::size_t at, std::size_t least_upper, std::size_t least_lower) {
    const auto with_tail = [&](std::size_t i) { return tail(t, i); };
    return repeat(t, at, is_prefix, 0, 1, [&](std::size_t i) {
        return repeat(t, i, any_of(kUpper), least_upper, kMany, [&](std::size_t j) {
            return repeat(t, j, any_of(kLower), least_lower, kMany, with_tail);
        });
    });
}

std::size_t piece(const Text &t, std::size_t at) {
    const auto newlines = [&](std::size_t least) {
        return [&t, least](std::size_t i) {
            return repeat(t, i, any_of(kNewline), least, kMany, done);
        };
    };
    const auto at_end = [&](std::size_t i) -> End {
        if (i < t.size() && none_of(kSpace)(t[i])) return std::nullopt;
        return i;
    };
    if (const End e = repeat(t, at, any_of(kHan), 1, kMany, done)) return *e;
    if (const End e = word(t, at, 0, 1)) return *e;
    if (const End e = word(t, at, 1, 0)) return *e;
    if (const End e = repeat(t, at, any_of(kNumber), 1, 3, done)) return *e;
    const auto symbols = [&](std::size_t i) {
        return repeat(t, i, is_symbol, 1, kMany, newlines(0));
    };
    if (const End e = repeat(
            t, at, [](char32_t c) { return c == ' '; }, 0, 1, symbols))
        return *e;
    if (const End e = repeat(t, at, any_of(kSpace), 0, kMany, newlines(1))) return *e;
    if (const End e = repeat(t, at, any_of(kSpace), 1, kMany, at_end)) return *e;
    return repeat(t, at, any_of(kSpace), 1, kMany, done).value();
}

std::vector<std::string> pieces_of(const Text &t) {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < t.size();) {
        const std::size_t end = piece(t, at);
        std::string text;
        while (at < end) text += test::utf8(t[at++]);
        pieces.push_back(std::move(text));
    }
    return pieces;
}

// The reference's cuts, written as its own loop over characters.
std::vector<std::size_t> hard_cuts(const Text &t) {
    std::vector<std::size_t> cuts;
    for (std::size_t window = 0; window < t.size(); window += 400000) {
        if (window > 0) cuts.push_back(window);
        const std::size_t end = std::min(t.size(), window + 400000);
        std::size_t begin = window;
        for (std::size_t i = window; i < end; ++i) {
            if (is_python_space(t[i]) != is_python_space(t[begin])) begin = i;
            if (i - begin < 25000) continue;
            cuts.push_back(i);
            begin = i;
        }
    }
    return cuts;
}

}  // namespace naive

std::string utf8(const std::u32string &text) {
    std::string out;
    for (const char32_t c : text) out += test::utf8(c);
    return out;
}

}  // namespace

TEST_CASE("splitter: pieces are as the reference documents them") {
    using Pieces = std::vector<std::string>;
    CHECK(pieces_of("世界A's") == Pieces{"世界", "A's"});
    CHECK(pieces_of(" 中文") == Pieces{" ", "中文"});
    CHECK(pieces_of("1〇〇〇") == Pieces{"1〇〇", "〇"});
    CHECK(pieces_of("!⺀!") == Pieces{"!⺀!"});
    CHECK(pieces_of("}\n/// doc") == Pieces{"}\n", "///", " doc"});
    CHECK(pieces_of("   \n\n  x") == Pieces{"   \n\n", " ", " x"});
    CHECK(pieces_of("it'\u017F CAN'T x'LLy") == Pieces{"it'\u017F", " CAN'T", " x'LL", "y"});
    CHECK(pieces_of("camelCase HTMLParser") == Pieces{"camel", "Case", " HTMLParser"});
    CHECK(pieces_of("\x1C\x1C a") == Pieces{"\x1C\x1C", " a"});
    CHECK(pieces_of(" \u0301A!") == Pieces{" \u0301", "A", "!"});
    CHECK(pieces_of("12345") == Pieces{"123", "45"});
    CHECK(pieces_of("tail   ") == Pieces{"tail", "   "});
}

TEST_CASE("splitter: agrees with a backtracking matcher on random text") {
    // Characters that the rules treat in different ways, the usual ones more than once.
    const std::u32string letters =
        U"aabzstdmlrveASTDMLRVEZ''''  \t\n\n\r\r!.,_-1239 é\u017F\u212A\u00AA\u01C5\u02B0"
        U"\u0301\u0308\u0903\u20DD\u4E2D\u754C\u3005\u3007\u2E80\u3021\U00016FF0\U00016FE3\u302A"
        U"\u3042\u30FC\uAC00\u0E01\u0E31\u0660\u00B2\u2167\u001C\u001F\u0085\u00A0\u2028\u200B"
        U"\u200D\u3000\uFEFF\uFE0F\U0001F600\U0001F3FD\u1C89\u1C8A\U00010FFFF";
    test::Random random(16);
    for (int round = 0; round < 200000; ++round) {
        // Few different characters make long runs and deep backtracking.
        std::u32string alphabet;
        const std::size_t n_letters = 1 + test::below(random, round % 2 == 0 ? 5 : 40);
        while (alphabet.size() < n_letters)
            alphabet += round % 16 == 0 ? test::any_char(random)
                                        : letters[test::below(random, letters.size())];
        std::u32string text;
        for (std::size_t n = test::below(random, 24); n > 0; --n)
            text += alphabet[test::below(random, alphabet.size())];
        const auto expected = naive::pieces_of(text);
        const auto got = pieces_of(utf8(text));
        if (got == expected) continue;
        CAPTURE(utf8(text));
        CHECK(got == expected);
    }
}

TEST_CASE("splitter: cuts are those of the reference's own loop") {
    test::Random random(4);
    const std::u32string letters = U"a \x1C\u4E2D\u3000\u200B\U0001F600";
    for (int round = 0; round < 6; ++round) {
        std::u32string text;
        while (text.size() < 900000)
            text.append(1 + test::below(random, 60000),
                        letters[test::below(random, letters.size())]);
        std::vector<std::size_t> cuts;
        std::size_t at = 0, bytes = 0;
        for (const std::size_t cut : naive::hard_cuts(text)) {
            while (at < cut) bytes += test::utf8(text[at++]).size();
            cuts.push_back(bytes);
        }
        CHECK(hard_cuts(utf8(text)) == cuts);
    }
    CHECK(hard_cuts(std::string(25000, 'x')).empty());
    CHECK(hard_cuts(std::string(25001, 'x')) == std::vector<std::size_t>{25000});
}
