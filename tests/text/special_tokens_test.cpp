#include "text/special_tokens.h"

#include "text/fixtures.h"

using namespace kimi;

namespace {

// Specials from id 1000 on, named by the added_tokens_decoder with these members.
SpecialTokens named(std::initializer_list<std::pair<std::string_view, std::string_view>> names) {
    std::string json;
    for (const auto &[id, name] : names)
        json += cat(json.empty() ? "" : ",", "\"", id, "\":{\"content\":\"", name, "\"}");
    const Json added = parse_json("{" + json + "}", "test");
    return SpecialTokens(1000, &added, "file.json");
}

}  // namespace

TEST_CASE("specials: without a config the names are those of K2.6") {
    const SpecialTokens specials(163584, nullptr, "");
    CHECK(specials.complete());
    CHECK(specials.find("[BOS]") == 163584);
    CHECK(specials.find("<|im_end|>") == 163586);
    CHECK(specials.find("<|im_middle|>") == 163601);
    CHECK(specials.find("<|media_pad|>") == 163605);
    CHECK(specials.find("</think>") == 163607);
    CHECK(specials.find("[PAD]") == 163839);
    CHECK(specials.name(163589) == "<|reserved_token_163589|>");
    CHECK(specials.find("<|reserved_token_163589|>") == 163589);
    CHECK_FALSE(specials.find("<|reserved_token_163586|>"));
    CHECK_FALSE(specials.find("<|im_end|> "));
    CHECK_FALSE(specials.find(" <|im_end|>"));
    CHECK_FALSE(specials.find(""));
    CHECK(specials.contains(163839));
    CHECK_FALSE(specials.contains(163840));
    CHECK_FALSE(specials.contains(163583));
}

TEST_CASE("specials: a search finds the first name, and the longest of those that begin there") {
    const SpecialTokens specials =
        named({{"1100", "<a"}, {"1101", "<ab"}, {"1102", "<abcd"}, {"1103", "<b"}, {"1104", "b<"}});
    const auto found = [&](std::string_view text, std::size_t from = 0) {
        const auto match = specials.search(text, from);
        return match ? cat(match->begin, "+", match->size, "=", match->id) : "";
    };
    CHECK(found("x<a") == "1+2=1100");
    CHECK(found("<ab") == "0+3=1101");
    CHECK(found("<abc") == "0+3=1101");
    CHECK(found("<abcd") == "0+5=1102");
    CHECK(found("<abce<b") == "0+3=1101");
    CHECK(found("<c<b<") == "2+2=1103");
    CHECK(found("xb<b") == "1+2=1104");
    CHECK(found("<abcd", 1) == "");
    CHECK(found("<abcd<a", 1) == "5+2=1100");
    CHECK(found("") == "");
    CHECK(found("<") == "");
    CHECK(found("<|reserved_token_1255|>") == "0+23=1255");
    CHECK(found("<|reserved_token_1256|>") == "");
    CHECK_FALSE(specials.complete());
}

TEST_CASE("specials: a config that contradicts itself or K2.6 is refused") {
    const auto error = [](std::string_view json) {
        const Json added = parse_json(json, "test");
        const Error e = test::error_of([&] { SpecialTokens(1000, &added, "file.json"); });
        CHECK(e.status == KIMI_CORRUPT);
        return e.text;
    };
    CHECK(error("[]") == "file.json: added_tokens_decoder: expected an object, found an array");
    for (const char *id : {"999", "1256", "x", "", "1000x", "-1", "99999999999"})
        CHECK(error(cat("{\"", id, "\": {\"content\": \"a\"}}")) ==
              cat("file.json: added_tokens_decoder: token \"", id,
                  "\" is not one of the special tokens 1000 to 1255"));
    for (const char *token : {"5", "{}", "{\"content\": 5}", "{\"content\": \"\"}"})
        CHECK(error(cat("{\"1000\": ", token, "}")) ==
              "file.json: added_tokens_decoder.1000.content: expected a string that is not empty");
    CHECK(error(R"({"1100": {"content": "a"}, "1101": {"content": "a"}})") ==
          "file.json: two special tokens are called a");
    // Ids that close the gap at 16, as an automatic conversion does.
    CHECK(error(R"({"1016": {"content": "<|im_middle|>"}})") ==
          "file.json: <|im_middle|> is token 1016, expected 1017");
}
