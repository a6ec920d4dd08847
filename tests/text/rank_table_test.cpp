#include "text/rank_table.h"

#include "text/fixtures.h"

using namespace kimi;

namespace {

std::string base64(std::string_view bytes) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t bits = 0;
        for (std::size_t k = i; k < i + 3; ++k)
            bits = bits << 8 | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0);
        for (int shift = 18; shift >= 0; shift -= 6) out += kDigits[bits >> shift & 63];
    }
    for (std::size_t n = bytes.size(); n % 3 != 0; ++n) out[out.size() - (3 - n % 3)] = '=';
    return out;
}

// Lines of the 256 bytes in reverse order, then of some longer tokens.
std::vector<std::string> good_lines() {
    std::vector<std::string> lines;
    for (int byte = 255; byte >= 0; --byte)
        lines.push_back(base64(std::string(1, static_cast<char>(byte))));
    for (const std::string_view token : {"ab", "abc", "\xE4\xB8", "long token"})
        lines.push_back(base64(token));
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += cat(" ", i);
    return lines;
}

std::string join(const std::vector<std::string> &lines) {
    std::string text;
    for (const std::string &line : lines) text += line + "\n";
    return text;
}

Error error_of_file(std::string_view text) {
    const test::TempDir dir;
    const std::string path = dir.write("tiktoken.model", text);
    Error error = test::error_of([&] { RankTable{path}; });
    CHECK(error.status == KIMI_CORRUPT);
    REQUIRE(error.text.starts_with(path));
    error.text.erase(0, path.size());
    return error;
}

}  // namespace

TEST_CASE("ranks: a file is read with or without a last line end") {
    const test::TempDir dir;
    const std::string text = join(good_lines());
    for (const std::string_view part :
         {std::string_view(text), std::string_view(text).substr(0, text.size() - 1)}) {
        const RankTable ranks(dir.write("tiktoken.model", part));
        CHECK(ranks.size() == 260);
        CHECK(ranks.bytes(0) == "\xFF");
        CHECK(ranks.bytes(259) == "long token");
        CHECK(ranks.find("abc") == 257);
        CHECK(ranks.find("abd") == RankTable::kNone);
        CHECK(ranks.find("") == RankTable::kNone);
        CHECK(ranks.find(std::string(100000, 'a')) == RankTable::kNone);
        for (std::uint32_t rank = 0; rank < ranks.size(); ++rank)
            CHECK(ranks.find(ranks.bytes(rank)) == rank);
    }
}

TEST_CASE("ranks: damage is named with file and line") {
    const auto with = [](std::size_t line, std::string text) {
        std::vector<std::string> lines = good_lines();
        lines[line - 1] = std::move(text);
        return error_of_file(join(lines)).text;
    };
    CHECK(with(3, "/Q 2") == ":3: expected the base64 of a token, found \"/Q\"");
    CHECK(with(3, "/Q=Q 2") == ":3: expected the base64 of a token, found \"/Q=Q\"");
    CHECK(with(3, "/R== 2") == ":3: expected the base64 of a token, found \"/R==\"");
    CHECK(with(3, " 2") == ":3: expected the base64 of a token, found \"\"");
    CHECK(with(3, "") == ":3: expected the base64 of a token, found \"\"");
    CHECK(with(3, "/Q== 3") == ":3: expected rank 2, found \"3\"");
    CHECK(with(3, "/Q== 02") == ":3: expected rank 2, found \"02\"");
    CHECK(with(3, "/Q== 2\r") == ":3: expected rank 2, found \"2\r\"");
    CHECK(with(3, "/Q==") == ":3: expected rank 2, found \"\"");
    CHECK(with(3, "/Q== 99999999999999999999") ==
          ":3: expected rank 2, found \"99999999999999999999\"");
    CHECK(with(258, "YWI= 257") == ":258: the same token as in line 257");
    CHECK(with(256, "eHl6 255") == ": no token for the single byte 0");
    CHECK(with(260, base64(std::string(1025, 'x')) + " 259") ==
          ":260: a token of 1025 bytes, at most 1024 are allowed");
}

TEST_CASE("ranks: gaps, cut files and empty files are damage") {
    std::vector<std::string> gap = good_lines();
    gap.erase(gap.begin() + 100);
    CHECK(error_of_file(join(gap)).text == ":101: expected rank 100, found \"101\"");
    CHECK(error_of_file("").text == ": no token for the single byte 0");
    const std::string text = join(good_lines());
    CHECK(error_of_file(text.substr(0, 1000)).text.starts_with(":"));
    CHECK(error_of_file(std::string(3000000, 'A')).text == ":1: expected rank 0, found \"\"");
    CHECK(error_of_file(std::string(100, '\0')).text.starts_with(":1: expected the base64"));
}

TEST_CASE("ranks: a file that is too large is refused before it is read") {
    const test::TempDir dir;
    const std::string path = dir.write("tiktoken.model", "");
    std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
    const Error error = test::error_of([&] { RankTable{path}; });
    CHECK(error.status == KIMI_CORRUPT);
    CHECK(test::contains(error.text, path));
}
