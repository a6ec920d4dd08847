#include "constraint/reply_constraint.h"

#include "constraint/fixtures.h"

using namespace kimi;

namespace {

const Tokenizer &nano() {
    static const Tokenizer tokenizer(test::nano());
    return tokenizer;
}
ReplyConstraint reply(ConstraintKind kind, std::string_view text) {
    static const auto trie = std::make_shared<const VocabTrie>(nano());
    return {kind, text, nano(), trie};
}

// The tokens that may come next; what fill() says must be what advance() says.
std::vector<std::int32_t> allowed(const ReplyConstraint &constraint, const ReplyState &state) {
    const std::int32_t n = nano().vocab_size();
    std::vector<std::uint64_t> mask((static_cast<std::size_t>(n) + 63) / 64 + 1, ~std::uint64_t{0});
    constraint.fill(state, mask);
    CHECK(mask.back() == 0);
    std::vector<std::int32_t> tokens;
    for (std::int32_t token = 0; token < n; ++token) {
        ReplyState next = state;
        const bool bit = (mask[static_cast<std::size_t>(token) / 64] >> token % 64 & 1) != 0;
        CHECK(bit == constraint.advance(next, token));
        if (bit) tokens.push_back(token);
    }
    return tokens;
}

std::vector<std::string> allowed_specials(const ReplyConstraint &constraint,
                                          const ReplyState &state) {
    std::vector<std::string> names;
    for (const std::int32_t token : allowed(constraint, state))
        if (nano().is_special(token)) names.emplace_back(nano().token_bytes(token));
    return names;
}

// Takes a text in which names of special tokens are those tokens; false where it is not allowed.
bool take(const ReplyConstraint &constraint, ReplyState &state, std::string_view text) {
    for (const std::int32_t token : nano().encode(text, true))
        if (!constraint.advance(state, token)) return false;
    return true;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("reply constraint: a schema holds behind the reasoning, up to a stop token") {
    const auto constraint = reply(ConstraintKind::json_schema, R"({"enum": ["yes", "no"]})");
    ReplyState state = constraint.start(true);
    CHECK_FALSE(constraint.is_free(state));
    CHECK(allowed_specials(constraint, state) == Names{"</think>"});
    CHECK(allowed(constraint, state).size() ==
          static_cast<std::size_t>(nano().vocab_size() - SpecialTokens::kCount + 1));
    REQUIRE(take(constraint, state, "Is it \"no\"?</think>"));
    ReplyState other = state;
    CHECK_FALSE(take(constraint, other, "yes"));
    CHECK(take(constraint, state, "\"yes"));
    CHECK(allowed_specials(constraint, state).empty());
    CHECK(take(constraint, state, "\""));
    const std::vector<std::int32_t> ends = allowed(constraint, state);
    CHECK(allowed_specials(constraint, state).size() == 3);
    CHECK(ends.size() == 3);
    CHECK(take(constraint, state, "<|im_end|>"));
    CHECK(allowed(constraint, state).empty());

    ReplyState direct = constraint.start(false);
    CHECK(take(constraint, direct, "\"no\"[EOS]"));
    CHECK_FALSE(constraint.advance(direct, -1));
}

TEST_CASE("reply constraint: calls name declared tools and have their arguments") {
    const auto constraint = reply(ConstraintKind::tool_calls, R"([{"type": "function", "function":
        {"name": "add", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}},
         "required": ["n"]}}}, {"function": {"name": "now"}}])");
    for (const bool in_reasoning : {true, false}) {
        ReplyState state = constraint.start(in_reasoning);
        CHECK(constraint.is_free(state));
        CHECK(allowed(constraint, state).size() == static_cast<std::size_t>(nano().vocab_size()));
        for (int call = 0; call < 2; ++call) {
            REQUIRE(take(constraint, state,
                         "any {text<|tool_calls_section_begin|><|tool_call_begin|>"));
            CHECK_FALSE(constraint.is_free(state));
            CHECK(allowed_specials(constraint, state).empty());
            for (const char *wrong : {"functions.sub:0<|tool_call_argument_begin|>", "now:0",
                                      "functions.now<|tool_call_argument_begin|>",
                                      "functions.add:0<|tool_call_argument_begin|>{}",
                                      "functions.now:0{", "<|tool_call_end|>", "<|im_end|>",
                                      "functions.now:0<|tool_call_argument_begin|>{\"n\":1}"}) {
                CAPTURE(wrong);
                ReplyState other = state;
                CHECK_FALSE(take(constraint, other, wrong));
            }
            REQUIRE(take(constraint, state, "functions.add:3"));
            CHECK(allowed_specials(constraint, state) == Names{"<|tool_call_argument_begin|>"});
            REQUIRE(take(constraint, state, "<|tool_call_argument_begin|>{\"n\": -12}"));
            CHECK(allowed_specials(constraint, state) == Names{"<|tool_call_end|>"});
            REQUIRE(take(constraint, state, "<|tool_call_end|>"));
            CHECK(constraint.is_free(state));
        }
        CHECK(take(constraint, state, "<|tool_calls_section_end|><|im_end|>"));
    }
}
