#include "constraint/regex_parser.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "text/utf8.h"

namespace kimi {
namespace {

using Kind = RegexNode::Kind;

constexpr int kMaxDepth = 100;
constexpr std::uint32_t kMaxCount = 65535;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// \d \w \s and their complements; nothing for other letters.
std::optional<CharSet> named_class(char letter) {
    CharSet set;
    switch (letter | 0x20) {
        case 'd':
            set = {{'0', '9'}};
            break;
        case 'w':
            set = make_char_set({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
            break;
        case 's':
            set = {{'\t', '\r'}, {' ', ' '}};
            break;
        default:
            return std::nullopt;
    }
    return letter >= 'a' ? set : complement(set);
}

RegexNode one_of(CharSet set) {
    RegexNode node{.kind = Kind::chars};
    node.chars = std::move(set);
    return node;
}
RegexNode repeated(RegexNode part, std::uint32_t min, std::uint32_t max) {
    RegexNode node{.kind = Kind::repeat, .min = min, .max = max};
    node.parts.push_back(std::move(part));
    return node;
}
RegexNode anything() {
    return repeated(one_of(complement({})), 0, RegexNode::kUnlimited);
}

class Parser {
  public:
    Parser(std::string_view pattern, Anchoring anchoring, std::string_view what)
        : pattern_(pattern), anchoring_(anchoring), what_(what) {}

    RegexNode parse() {
        const std::size_t bad = find_invalid_utf8(pattern_);
        if (bad != std::string_view::npos) invalid(bad, "invalid UTF-8");
        RegexNode node = choice(0);
        if (!done()) invalid(at_, "unmatched )");
        return node;
    }

  private:
    template <typename... Parts>
    [[noreturn]] void invalid(std::size_t at, const Parts &...reason) const {
        fail(KIMI_INVALID_ARGUMENT, what_, ": byte ", at, ": ", reason...);
    }
    template <typename... Parts>
    [[noreturn]] void unsupported(std::size_t at, const Parts &...reason) const {
        fail(KIMI_UNSUPPORTED, what_, ": byte ", at, ": ", reason..., " not supported");
    }

    bool done() const { return at_ == pattern_.size(); }
    char peek() const { return done() ? '\0' : pattern_[at_]; }
    bool take(std::string_view text) {
        if (!pattern_.substr(at_).starts_with(text)) return false;
        at_ += text.size();
        return true;
    }
    char32_t take_char() {
        const Utf8Char c = first_utf8_char(pattern_.substr(at_));
        at_ += c.size;
        return c.value;
    }

    RegexNode choice(int depth) {
        RegexNode node{.kind = Kind::choice};
        do {
            node.parts.push_back(alternative(depth));
        } while (take("|"));
        return node.parts.size() == 1 ? std::move(node.parts[0]) : node;
    }

    RegexNode alternative(int depth) {
        RegexNode node;
        const bool search = depth == 0 && anchoring_ == Anchoring::search;
        if (!(depth == 0 && take("^")) && search) node.parts.push_back(anything());
        bool anchored = false;
        while (!done() && peek() != '|' && peek() != ')') {
            const std::size_t begin = at_;
            if (depth == 0 && take("$")) {
                if (!done() && peek() != '|') unsupported(begin, "$ inside an expression is");
                anchored = true;
                break;
            }
            RegexNode part = atom(depth);
            if (quantifier(part) && is_quantifier()) invalid(at_, "two quantifiers");
            node.parts.push_back(std::move(part));
        }
        if (!anchored && search) node.parts.push_back(anything());
        return node;
    }

    RegexNode atom(int depth) {
        const std::size_t begin = at_;
        if (is_quantifier()) invalid(begin, "nothing to repeat");
        switch (peek()) {
            case '(':
                return group(depth);
            case '[':
                return one_of(bracket());
            case '^':
            case '$':
                unsupported(begin, peek(), " inside an expression is");
            case '.':
                ++at_;
                return one_of(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
            case '\\':
                if (auto set = take_class()) return one_of(std::move(*set));
                if (at_ + 1 < pattern_.size() && (pattern_[at_ + 1] | 0x20) == 'b')
                    unsupported(begin, "word borders are");
                [[fallthrough]];
            default: {
                const char32_t c = character(false);
                return one_of(make_char_set({{c, c}}));
            }
        }
    }

    RegexNode group(int depth) {
        const std::size_t begin = at_++;
        if (depth == kMaxDepth)
            fail(KIMI_TOO_LONG, "constraint too complex: ", what_, " nests deeper than ", kMaxDepth,
                 " levels");
        if (take("?<=") || take("?<!") || take("?=") || take("?!"))
            unsupported(begin, "look-around is");
        if (take("?<") || take("?P<")) {
            while (!done() && peek() != '>') take_char();
            if (!take(">")) invalid(begin, "unmatched <");
        } else if (peek() == '?' && !take("?:")) {
            unsupported(begin, "this kind of group is");
        }
        RegexNode node = choice(depth + 1);
        if (!take(")")) invalid(begin, "unmatched (");
        return node;
    }

    // m and n of {m}, {m,} or {m,n}; nothing, and nothing taken, where none stands here.
    struct Count {
        std::uint32_t min, max;
    };
    std::optional<Count> take_count() {
        const std::size_t begin = at_;
        Count count{};
        const auto number = [&](std::uint32_t &value) {
            const std::size_t first = at_;
            for (value = 0; is_digit(peek()); ++at_)
                value = std::min<std::uint32_t>(
                    kMaxCount + 1, value * 10 + static_cast<std::uint32_t>(peek() - '0'));
            return at_ > first;
        };
        bool good = take("{") && number(count.min);
        count.max = count.min;
        if (good && take(",") && !number(count.max)) count.max = RegexNode::kUnlimited;
        good = good && take("}");
        if (!good) {
            at_ = begin;
            return std::nullopt;
        }
        const bool unlimited = count.max == RegexNode::kUnlimited;
        if (count.min > kMaxCount || (count.max > kMaxCount && !unlimited))
            unsupported(begin, "a count over ", kMaxCount, " is");
        if (count.min > count.max) invalid(begin, "the counts are out of order");
        return count;
    }
    bool is_quantifier() {
        const std::size_t begin = at_;
        const bool yes = take("*") || take("+") || take("?") || take_count();
        at_ = begin;
        return yes;
    }
    // Applies the quantifier that stands here, if one does.
    bool quantifier(RegexNode &part) {
        std::optional<Count> count;
        if (take("*")) {
            count = {0, RegexNode::kUnlimited};
        } else if (take("+")) {
            count = {1, RegexNode::kUnlimited};
        } else if (take("?")) {
            count = {0, 1};
        } else {
            count = take_count();
        }
        if (!count) return false;
        take("?");  // lazy: the same language
        part = repeated(std::move(part), count->min, count->max);
        return true;
    }

    std::optional<CharSet> take_class() {
        if (peek() != '\\' || at_ + 1 >= pattern_.size()) return std::nullopt;
        auto set = named_class(pattern_[at_ + 1]);
        if (set) at_ += 2;
        return set;
    }

    CharSet bracket() {
        const std::size_t begin = at_++;
        const bool negated = take("^");
        std::vector<CharRange> ranges;
        while (!take("]")) {
            if (done()) invalid(begin, "unmatched [");
            if (const auto set = take_class()) {
                ranges.insert(ranges.end(), set->begin(), set->end());
                continue;
            }
            const std::size_t first_at = at_;
            CharRange range{};
            range.low = range.high = character(true);
            // A - beside a class, or at the end, is a character.
            const std::string_view rest = pattern_.substr(at_);
            const bool class_follows = rest.size() > 2 && rest[1] == '\\' && named_class(rest[2]);
            if (rest.size() > 1 && rest[0] == '-' && rest[1] != ']' && !class_follows) {
                ++at_;
                range.high = character(true);
                if (range.high < range.low) invalid(first_at, "the range is out of order");
            }
            ranges.push_back(range);
        }
        const CharSet set = make_char_set(std::move(ranges));
        return negated ? complement(set) : set;
    }

    // One character, as it stands or escaped.
    char32_t character(bool in_bracket) {
        const std::size_t begin = at_;
        if (!take("\\")) return take_char();
        if (done()) invalid(begin, "\\ at the end");
        const char letter = peek();
        if ((letter >= '1' && letter <= '9') || letter == 'k')
            unsupported(begin, "a back reference is");
        if ((letter | 0x20) == 'p') unsupported(begin, "a Unicode property is");
        const char32_t c = take_char();
        switch (c) {
            case 't':
                return '\t';
            case 'n':
                return '\n';
            case 'v':
                return '\v';
            case 'f':
                return '\f';
            case 'r':
                return '\r';
            case '0':
                if (is_digit(peek())) unsupported(begin, "an octal escape is");
                return 0;
            case 'b':
                if (in_bracket) return '\b';
                break;
            case 'c':
                if ((peek() | 0x20) >= 'a' && (peek() | 0x20) <= 'z') return take_char() & 0x1F;
                break;
            case 'x':
                return hex(begin, 2);
            case 'u':
                return unicode_escape(begin);
            default:
                if (c < 0x80 && (char_is_word(c))) break;
                return c;
        }
        invalid(begin, "unknown escape");
    }
    static bool char_is_word(char32_t c) {
        return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
    }

    char32_t hex(std::size_t begin, int n_digits) {
        char32_t value = 0;
        for (int i = 0; i < n_digits; ++i) {
            const char c = done() ? '?' : pattern_[at_++];
            const char lower = static_cast<char>(c | 0x20);
            if (is_digit(c))
                value = value * 16 + static_cast<char32_t>(c - '0');
            else if (lower >= 'a' && lower <= 'f')
                value = value * 16 + static_cast<char32_t>(lower - 'a' + 10);
            else
                invalid(begin, "expected ", n_digits, " hex digits");
        }
        return value;
    }

    // What follows \u.
    char32_t unicode_escape(std::size_t begin) {
        char32_t c = 0;
        if (take("{")) {
            const std::size_t end = pattern_.find('}', at_);
            if (end == std::string_view::npos || end == at_ || end - at_ > 6)
                invalid(begin, "expected \\u{X} with 1 to 6 hex digits");
            c = hex(begin, static_cast<int>(end - at_));
            ++at_;
        } else {
            c = hex(begin, 4);
            if (c >= 0xD800 && c < 0xDC00 && take("\\u")) {
                const char32_t low = hex(begin, 4);
                if (low >= 0xDC00 && low < 0xE000)
                    c = 0x10000 + ((c & 0x3FF) << 10) + (low & 0x3FF);
            }
        }
        if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) invalid(begin, "no Unicode character");
        return c;
    }

    std::string_view pattern_;
    Anchoring anchoring_;
    std::string_view what_;
    std::size_t at_ = 0;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern, Anchoring anchoring, std::string_view what) {
    return Parser(pattern, anchoring, what).parse();
}

}  // namespace kimi
