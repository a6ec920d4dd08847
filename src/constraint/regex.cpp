#include "constraint/regex.h"

namespace kimi {
namespace {

using Kind = RegexNode::Kind;

class Compiler {
  public:
    Compiler(Spelling spelling, WorkMeter &meter) : spelling_(spelling), builder_(meter) {}

    Fragment compile(const RegexNode &node) {
        const std::uint32_t start = builder_.add_state();
        return builder_.finish(add(node, start));
    }

  private:
    // Adds what leads from a state to the one returned, without edges or moves into `from`.
    std::uint32_t add(const RegexNode &node, std::uint32_t from) {
        builder_.meter().step();
        switch (node.kind) {
            case Kind::chars: {
                const std::uint32_t to = builder_.add_state();
                add_chars(builder_, from, to, node.chars, spelling_);
                return to;
            }
            case Kind::sequence:
                for (const RegexNode &part : node.parts) from = add(part, from);
                return from;
            case Kind::choice: {
                const std::uint32_t to = builder_.add_state();
                for (const RegexNode &part : node.parts) builder_.add_move(add(part, from), to);
                return to;
            }
            case Kind::repeat:
                break;
        }
        return add_repeat(node, from);
    }

    std::uint32_t add_repeat(const RegexNode &node, std::uint32_t from) {
        const RegexNode &part = node.parts[0];
        for (std::uint32_t i = 0; i < node.min; ++i) from = add(part, from);
        const std::uint32_t to = builder_.add_state();
        if (node.max == RegexNode::kUnlimited) {
            builder_.add_move(from, to);
            builder_.add_move(add(part, to), to);
            return to;
        }
        for (std::uint32_t i = node.min; i < node.max; ++i) {
            builder_.add_move(from, to);
            from = add(part, from);
        }
        builder_.add_move(from, to);
        return to;
    }

    Spelling spelling_;
    FragmentBuilder builder_;
};

}  // namespace

Fragment compile_regex(std::string_view pattern, Anchoring anchoring, Spelling spelling,
                       std::string_view what, WorkMeter &meter) {
    return Compiler(spelling, meter).compile(parse_regex(pattern, anchoring, what));
}

}  // namespace kimi
