// A schema, an expression or tools, by the first byte; the second chooses tokens among the allowed.
#include <vector>

#include "constraint/reply_constraint.h"
#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

using namespace kimi;

namespace {

// The tokens that are allowed advance the state, and all others do not.
void walk(const ReplyConstraint &constraint, std::uint8_t choice, std::int32_t vocab) {
    std::vector<std::uint64_t> mask((static_cast<std::size_t>(vocab) + 63) / 64);
    ReplyState state = constraint.start(choice % 2 != 0);
    for (int step = 0; step < 8; ++step) {
        constraint.fill(state, mask);
        std::vector<std::int32_t> allowed;
        for (std::int32_t token = 0; token < vocab; ++token) {
            const auto i = static_cast<std::size_t>(token);
            const bool set = (mask[i / 64] >> i % 64 & 1) != 0;
            if (!constraint.is_free(state))
                fuzz::expect(set == constraint.allows(state, token), "mask and question differ");
            if (set) allowed.push_back(token);
        }
        if (allowed.empty()) return;
        const std::int32_t token =
            allowed[(choice + static_cast<std::size_t>(step) * 31) % allowed.size()];
        if (!constraint.advance(state, token)) fuzz::broken("an allowed token is refused");
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const Tokenizer tokenizer(fuzz::tiny_model());
    static const auto trie = std::make_shared<const VocabTrie>(tokenizer);
    static constexpr ConstraintKind kKinds[] = {ConstraintKind::json_schema, ConstraintKind::regex,
                                                ConstraintKind::tool_calls};
    fuzz::Bytes in(data, size);
    const ConstraintKind kind = kKinds[in.byte() % 3];
    const std::uint8_t choice = in.byte();
    const std::string_view text = in.rest();
    ConstraintLimits limits;
    limits.max_steps /= 64;  // an input that takes long is no finding
    fuzz::accepts([&] {
        const ReplyConstraint constraint(kind, text, tokenizer, trie, limits);
        walk(constraint, choice, tokenizer.vocab_size());
    });
    return 0;
}
