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

TEST_CASE("tokenizer: nano-k2's prompts and replies are those of its goldens") {
    const Tokenizer nano(test::nano());
    CHECK(nano.vocab_size() == 4096);
    CHECK(nano.supports_chat());
    int n = 0;
    for (const Json &golden : test::read_json(test::data("nano-k2/generate.json")).items) {
        CAPTURE(golden.find("name")->text);
        const test::Tokens prompt = test::ids_of(*golden.find("prompt"));
        CHECK(nano.encode(golden.find("text")->text, true) == prompt);
        CHECK(nano.decode(prompt) == golden.find("text")->text);
        CHECK(nano.decode(test::ids_of(*golden.find("tokens"))) == golden.find("reply")->text);
        ++n;
    }
    CHECK(n == 14);
}

TEST_CASE("tokenizer: decoding gives the encoded text back") {
    test::Random random(3);
    for (int round = 0; round < 3000; ++round) {
        std::string text;
        for (std::size_t n = test::below(random, 60); n > 0; --n)
            text += round % 2 == 0 ? test::utf8(test::any_char(random))
                                   : std::string(test::k26().token_bytes(
                                         static_cast<std::int32_t>(test::below(random, 163840))));
        if (find_invalid_utf8(text) != std::string::npos) continue;
        CAPTURE(text);
        CHECK(test::k26().decode(test::k26().encode(text, false)) == text);
        CHECK(test::k26().decode(test::k26().encode(text, true)) == text);
    }
}

TEST_CASE("tokenizer: a stream gives the same text whatever tokens arrive together") {
    for (const Json &golden : test::goldens().find("tokenizer")->items) {
        const std::string &text = golden.find("text")->text;
        for (const bool specials : {false, true}) {
            const test::Tokens ids = test::k26().encode(text, specials);
            for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
                Utf8Stream stream;
                std::string out;
                for (std::size_t i = 0; i < cut; ++i) {
                    stream.push(test::k26().token_bytes(ids[i]), out);
                    REQUIRE(find_invalid_utf8(out) == std::string::npos);
                }
                stream.push(test::k26().decode(std::span(ids).subspan(cut)), out);
                stream.flush(out);
                CAPTURE(text);
                CHECK(out == text);
            }
        }
    }
}

TEST_CASE("tokenizer: text that is not UTF-8 is refused with the byte offset") {
    const auto error = [](std::string_view text) {
        const Error e = test::error_of([&] { test::k26().encode(text, true); });
        CHECK(e.status == KIMI_INVALID_ARGUMENT);
        return e.text;
    };
    CHECK(error("\xFF") == "text: invalid UTF-8 at byte 0");
    CHECK(error("caf\xC3\xA9 \xE4\xB8") == "text: invalid UTF-8 at byte 6");
    CHECK(error(test::repeat("x", 100000) + "\xED\xA0\x80") ==
          "text: invalid UTF-8 at byte 100000");
}

TEST_CASE("tokenizer: specials are known by id and name") {
    const Tokenizer &tokenizer = test::k26();
    CHECK(tokenizer.vocab_size() == 163840);
    CHECK(tokenizer.supports_chat());
    CHECK(tokenizer.special("<think>") == 163606);
    CHECK_FALSE(tokenizer.special("<thinking>"));
    CHECK(tokenizer.token_bytes(163606) == "<think>");
    CHECK(tokenizer.token_bytes(0) == "!");
    CHECK(tokenizer.is_special(163584));
    CHECK_FALSE(tokenizer.is_special(163583));
    CHECK(tokenizer.stop_tokens() == std::array{163586, 163585, 163593});
    for (const std::int32_t id : {-1, 163840, INT32_MAX}) {
        const Error error = test::error_of([&] { test::k26().decode(std::array{0, id}); });
        CHECK(error.status == KIMI_INVALID_ARGUMENT);
        CHECK(error.text == cat("token ", id, " is not in the vocabulary of 163840"));
    }
}

TEST_CASE("tokenizer: a special name across a cut stays text") {
    const std::string text = test::repeat("a", 24998) + "[BOS]";
    const test::Tokens ids = test::k26().encode(text, true);
    CHECK(std::find(ids.begin(), ids.end(), 163584) == ids.end());
    CHECK(test::k26().decode(ids) == text);
}

TEST_CASE("tokenizer: chat support follows the folder's configs") {
    const test::TempDir dir;
    std::filesystem::copy(test::nano() + "/tiktoken.model", dir.path());
    const auto supports = [&] { return Tokenizer(dir.path()).supports_chat(); };
    CHECK(supports());
    dir.write("config.json", R"({"model_type": "kimi_k25"})");
    CHECK(supports());
    dir.write("config.json", R"({"model_type": "kimi_k2"})");
    CHECK_FALSE(supports());
    dir.write("config.json", "{}");
    CHECK_FALSE(supports());
    std::filesystem::remove(dir.file("config.json"));
    dir.write("tokenizer_config.json", "{}");
    CHECK(supports());
    // K2-Instruct: no <think>, no media tokens.
    dir.write("tokenizer_config.json",
              R"({"added_tokens_decoder": {"3842": {"content": "<|im_end|>"}}})");
    CHECK_FALSE(supports());
    CHECK(Tokenizer(dir.path()).special("<|im_end|>") == 3842);
    CHECK(Tokenizer(dir.path()).special("<|reserved_token_3862|>") == 3862);
}

TEST_CASE("tokenizer: missing and damaged files are named") {
    const test::TempDir dir;
    const auto error = [&] { return test::error_of([&] { Tokenizer{dir.path()}; }); };
    CHECK(error().status == KIMI_NOT_FOUND);
    CHECK(test::contains(error().text, dir.file("tiktoken.model")));
    std::filesystem::copy(test::nano() + "/tiktoken.model", dir.path());
    for (const char *name : {"config.json", "tokenizer_config.json"}) {
        dir.write(name, "{\"added_tokens_decoder\":");
        CHECK(error().status == KIMI_CORRUPT);
        CHECK(test::contains(error().text, dir.file(name)));
        std::filesystem::remove(dir.file(name));
    }
}

TEST_CASE("tokenizer: threads share one tokenizer") {
    const std::string text = test::goldens().find("chat")->items[6].find("text")->text;
    const test::Tokens expected = test::k26().encode(text, true);
    std::array<bool, 4> equal{};
    {
        std::vector<std::jthread> threads;
        for (bool &result : equal)
            threads.emplace_back([&] {
                result = true;
                for (int i = 0; i < 50; ++i)
                    result = result && test::k26().encode(text, true) == expected;
            });
    }
    CHECK(equal == std::array{true, true, true, true});
}
