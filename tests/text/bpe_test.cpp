#include "text/bpe.h"

#include "text/fixtures.h"

using namespace kimi;

namespace {

const RankTable &ranks() {
    static const RankTable table(test::data("kimi-tokenizer/tiktoken.model"));
    return table;
}

// Joins the leftmost pair of lowest rank, again and again.
test::Tokens naive_bpe(std::string_view piece) {
    std::vector<std::string> parts;
    for (const char c : piece) parts.emplace_back(1, c);
    for (;;) {
        std::uint32_t best = RankTable::kNone;
        std::size_t at = 0;
        for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
            const std::uint32_t rank = ranks().find(parts[i] + parts[i + 1]);
            if (rank < best) best = rank, at = i;
        }
        if (best == RankTable::kNone) break;
        parts[at] += parts[at + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    test::Tokens tokens;
    for (const std::string &part : parts)
        tokens.push_back(static_cast<std::int32_t>(ranks().find(part)));
    return tokens;
}

test::Tokens encode(std::string_view piece) {
    static BpeEncoder encoder(ranks());
    test::Tokens tokens;
    encoder.encode(piece, tokens);
    return tokens;
}

}  // namespace

TEST_CASE("bpe: agrees with naive merging on random pieces") {
    test::Random random(7);
    const auto pick = [&](std::string_view from) { return from[test::below(random, from.size())]; };
    for (int round = 0; round < 20000; ++round) {
        std::string piece;
        for (std::size_t n = 1 + test::below(random, 40); piece.size() < n;) {
            switch (round % 4) {
                case 0:
                    piece += pick("abcdefghijklmnopqrstuvwxyz");
                    break;
                case 1:
                    piece += pick("ab =");
                    break;
                case 2:
                    piece += static_cast<char>(random());
                    break;
                case 3:  // parts of tokens, which have many ways to merge
                    piece += ranks().bytes(
                        static_cast<std::uint32_t>(test::below(random, ranks().size())));
            }
        }
        const test::Tokens expected = naive_bpe(piece), got = encode(piece);
        if (got == expected) continue;
        CAPTURE(piece);
        CHECK(got == expected);
    }
}

TEST_CASE("bpe: of equal ranks the leftmost pair is joined first") {
    for (std::size_t n = 1; n < 300; ++n) {
        CAPTURE(n);
        CHECK(encode(std::string(n, 'a')) == naive_bpe(std::string(n, 'a')));
        CHECK(encode(test::repeat("\xE4\xB8", n)) == naive_bpe(test::repeat("\xE4\xB8", n)));
    }
}

TEST_CASE("bpe: every token of the vocabulary is encoded as itself, also by merging alone") {
    // The fact sheet: the shortcut for whole tokens never changes the result.
    std::size_t merged = 0;
    for (std::uint32_t rank = 0; rank < ranks().size(); ++rank) {
        const std::string_view bytes = ranks().bytes(rank);
        const test::Tokens itself{static_cast<std::int32_t>(rank)};
        if (encode(bytes) != itself) FAIL("token ", rank);
        if (rank % 16 == 0 && naive_bpe(bytes) == itself) ++merged;
    }
    CHECK(merged == (ranks().size() + 15) / 16);
    CHECK(encode("").empty());
}
