#include "text/tokenizer.h"

#include <thread>

#include "check.h"
#include "text/fixtures.h"
#include "text/sha256.h"
#include "text/utf8.h"

using namespace kimi;

namespace {

std::string little_endian(const test::Tokens &ids) {
    std::string bytes;
    for (const std::int32_t id : ids)
        for (int shift = 0; shift < 32; shift += 8)
            bytes.push_back(static_cast<char>(static_cast<std::uint32_t>(id) >> shift));
    return bytes;
}

}  // namespace

TEST_CASE("tokenizer: every golden text gives its ids, with specials and without") {
    int n = 0;
    for (const Json &golden : test::goldens().find("tokenizer")->items) {
        const std::string &text = golden.find("text")->text;
        CAPTURE(text);
        CHECK(test::k26().encode(text, true) == test::ids_of(*golden.find("ids")));
        CHECK(test::k26().encode(text, false) == test::ids_of(*golden.find("ids_no_special")));
        ++n;
    }
    CHECK(n == 46);
}

TEST_CASE("tokenizer: giant runs are cut as the reference cuts them") {
    const std::vector<std::pair<std::string, std::string>> texts = {
        {"'a'*24990+'[BOS]'+'b'*10", test::repeat("a", 24990) + "[BOS]" + test::repeat("b", 10)},
        {"' '*60000", test::repeat(" ", 60000)},
        {"'ab '*140000", test::repeat("ab ", 140000)}};
    REQUIRE(test::goldens().find("tokenizer_long")->items.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const Json &golden = test::goldens().find("tokenizer_long")->items[i];
        REQUIRE(golden.find("python_expr")->text == texts[i].first);
        const test::Tokens ids = test::k26().encode(texts[i].second, true);
        CHECK(ids.size() == static_cast<std::size_t>(golden.find("n_ids")->real));
        CHECK(test::sha256(little_endian(ids)) == golden.find("ids_sha256_le_u32")->text);
    }
}
