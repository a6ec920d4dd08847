#include "text/utf8.h"

#include "text/fixtures.h"

using namespace kimi;

namespace {

std::string replaced(std::initializer_list<std::string_view> pieces) {
    Utf8Stream stream;
    std::string out;
    for (const std::string_view piece : pieces) stream.push(piece, out);
    stream.flush(out);
    return out;
}

// With U+FFFD as a question mark.
std::string marked(std::string text) {
    for (std::size_t at; (at = text.find("\uFFFD")) != std::string::npos;)
        text.replace(at, 3, 1, '?');
    return text;
}

// What Python 3.11's bytes.decode(errors="replace") gives.
constexpr std::pair<std::string_view, std::string_view> kReplaced[] = {
    {"\x80", "?"},
    {"\xbf\xbf", "??"},
    {"\xc0\x80", "??"},
    {"\xc1\xbf", "??"},
    {"\xc3", "?"},
    {"\xc3\x28", "?("},
    {"\xe0\x80\x80", "???"},
    {"\xe0\xa0", "?"},
    {"\xe4\xb8", "?"},
    {"\xe4\xb8\x61", "?a"},
    {"\xe4\xb8\xe4\xb8\xad", "?中"},
    {"\xed\xa0\x80", "???"},
    {"\xef\xbf", "?"},
    {"\xf0\x80\x80\x80", "????"},
    {"\xf0\x9f", "?"},
    {"\xf0\x9f\x98", "?"},
    {"\xf0\x9f\x98\x61", "?a"},
    {"\xf0\x9f\xf0\x9f\x98\x80", "?😀"},
    {"\xf4\x90\x80\x80", "????"},
    {"\xf5\x80\x80\x80", "????"},
    {"\xf8\x88\x80\x80\x80", "?????"},
    {"\xff", "?"},
    {"\x61\xf0\x90\x80\xc3\xa9\xff\x62", "a?é?b"},
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf", "????"},
};

}  // namespace

TEST_CASE("utf8: every code point is valid, and its bytes in any other number are not") {
    for (char32_t c = 0; c < 0x110000; ++c) {
        if (c == 0xD800) c = 0xE000;
        const std::string bytes = test::utf8(c);
        const Utf8Char first = first_utf8_char(bytes);
        if (find_invalid_utf8(bytes) == std::string::npos && first.value == c &&
            first.size == bytes.size() &&
            (bytes.size() == 1 || find_invalid_utf8(bytes.substr(0, bytes.size() - 1)) == 0))
            continue;
        FAIL("U+", static_cast<std::uint32_t>(c));
    }
}

TEST_CASE("utf8: the first bad byte is found behind valid text of any length") {
    for (const auto &pair : kReplaced) {
        const auto &bad = pair.first;
        const auto &expected = pair.second;
        CAPTURE(expected);
        const std::size_t offset = bad[0] == 'a' ? 1 : 0;
        for (std::size_t n = 0; n < 20; ++n)
            CHECK(find_invalid_utf8(std::string(n, 'x').append("é").append(bad)) == n + 2 + offset);
    }
    CHECK(find_invalid_utf8("") == std::string_view::npos);
}

TEST_CASE("utf8: bad bytes become U+FFFD as in Python, wherever the stream is cut") {
    for (const auto &pair : kReplaced) {
        const auto &bytes = pair.first;
        const auto &expected = pair.second;
        CAPTURE(expected);
        CHECK(marked(replaced({bytes})) == expected);
        for (std::size_t i = 0; i <= bytes.size(); ++i)
            for (std::size_t k = i; k <= bytes.size(); ++k)
                CHECK(marked(replaced({bytes.substr(0, i), bytes.substr(i, k - i),
                                       bytes.substr(k)})) == expected);
    }
}

TEST_CASE("utf8: a stream holds back incomplete characters only") {
    Utf8Stream stream;
    std::string out;
    stream.push("a\xf0\x9f", out);
    CHECK(out == "a");
    stream.push("\x98", out);
    CHECK(out == "a");
    stream.push("\x80z", out);
    CHECK(out == "a😀z");
    stream.flush(out);
    CHECK(out == "a😀z");
}
