#include "text/unicode.h"

#include "check.h"

using namespace kimi;

namespace {

int count(auto &&wanted) {
    int n = 0;
    for (char32_t c = 0; c < 0x110000; ++c) n += wanted(char_class(c)) ? 1 : 0;
    return n;
}

}  // namespace

// Facts of DerivedGeneralCategory.txt, Scripts.txt and PropList.txt of Unicode 16.0.0.
TEST_CASE("unicode: the classes have the sizes that Unicode 16 gives them") {
    CHECK(count([](int bits) { return bits & kHan; }) == 99030);
    CHECK(count([](int bits) { return bits & kNumber; }) == 760 + 236 + 915);
    CHECK(count([](int bits) { return bits & kSpace; }) == 25);
    CHECK(count([](int bits) { return bits & kNewline; }) == 2);
    // Only Lu and Lt are upper but not lower; only Ll is lower but not upper.
    CHECK(count([](int bits) { return (bits & (kUpper | kLower)) == kUpper; }) == 1858 + 31);
    CHECK(count([](int bits) { return (bits & (kUpper | kLower)) == kLower; }) == 2258);
}

TEST_CASE("unicode: characters have their classes") {
    const int mark = kUpper | kLower | kSymbol, letter = kUpper | kLower;
    const std::pair<char32_t, int> facts[] = {
        {'A', kUpper},
        {'z', kLower},
        {'7', kNumber},
        {' ', kSpace},
        {'\r', kSpace | kNewline},
        {'\n', kSpace | kNewline},
        {'_', kSymbol},
        {0x1C, kSymbol},  // information separators are no white space here
        {0x85, kSpace},
        {0xA0, kSpace},
        {0xAA, letter},   // feminine ordinal, Lo
        {0xB2, kNumber},  // superscript two
        {0x17F, kLower},  // long s
        {0x1C5, kUpper},  // Dz with caron, Lt
        {0x2B0, letter},  // modifier letter h
        {0x301, mark},
        {0x200B, kSymbol},          // zero width space
        {0x3000, kSpace},           // ideographic space
        {0x302A, mark},             // a tone mark of script Inherited
        {0x2E80, kHan | kSymbol},   // a radical
        {0x3005, kHan},             // iteration mark, Lm
        {0x3007, kHan | kNumber},   // ideographic zero
        {0x4E2D, kHan},             //
        {0x16FF0, kHan | kSymbol},  // a combining mark of script Han
        {0x20000, kHan},            //
        {0x3042, letter},           // hiragana a
        {0xD7FF, kSymbol},          // unassigned
        {0x10FFFF, kSymbol},
    };
    for (const auto &fact : facts) {
        const auto c = fact.first;
        const auto bits = fact.second;
        CAPTURE(static_cast<std::uint32_t>(c));
        CHECK(char_class(c) == bits);
    }
}

TEST_CASE("unicode: the tables are those of version 16, not an older or newer one") {
    CHECK(char_class(0x1C89) == kUpper);              // added in 16
    CHECK(char_class(0xA7DA) == kUpper);              // added in 16
    CHECK(char_class(0x1E5F1) == kNumber);            // added in 16
    CHECK(char_class(0x10D4A) == (kUpper | kLower));  // added in 16
    CHECK(char_class(0xA7CE) == kSymbol);             // added in 17
    CHECK(char_class(0x88F) == kSymbol);              // added in 17
    CHECK(char_class(0x323B0) == kSymbol);            // Han, added in 17
}

TEST_CASE("unicode: Python's white space has four more characters") {
    int n = 0;
    for (char32_t c = 0; c < 0x110000; ++c) n += is_python_space(c) ? 1 : 0;
    CHECK(n == 29);
    for (const char32_t c : {0x1C, 0x1D, 0x1E, 0x1F}) CHECK(is_python_space(c));
}
