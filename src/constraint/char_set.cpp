#include "constraint/char_set.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace kimi {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr CharRange kSurrogates = {0xD800, 0xDFFF};
constexpr std::uint32_t kNone = UINT32_MAX;

struct ByteRange {
    std::uint8_t low, high;
};

// The part of a set within a range.
CharSet within(const CharSet &set, CharRange range) {
    CharSet out;
    for (const CharRange &r : set)
        if (r.low <= range.high && r.high >= range.low)
            out.push_back({std::max(r.low, range.low), std::min(r.high, range.high)});
    return out;
}

// UTF-8 byte sequences between two states. Sequences share their tails: n bytes of which each may
// be any continuation byte.
class Utf8Edges {
  public:
    Utf8Edges(FragmentBuilder &builder, std::uint32_t from, std::uint32_t to)
        : builder_(builder), from_(from), tails_{to, kNone, kNone, kNone} {}

    // Splits the range until all of it is a product of byte ranges.
    void add(char32_t low, char32_t high) {
        for (const char32_t last : {U'\x7F', U'\u07FF', U'\uFFFF'})
            if (low <= last && high > last) return split(low, last, high);
        if (high < 0x80) return builder_.add_edge(from_, byte(low), byte(high), tails_[0]);
        for (int bits = 6; bits <= 18; bits += 6) {
            const char32_t mask = (char32_t{1} << bits) - 1;
            if ((low & ~mask) == (high & ~mask)) continue;
            if ((low & mask) != 0) return split(low, low | mask, high);
            if ((high & mask) != mask) return split(low, (high & ~mask) - 1, high);
        }
        const std::size_t n = low < 0x800 ? 1 : low < 0x10000 ? 2 : 3;
        std::array<ByteRange, 4> bytes;
        constexpr std::uint8_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
        for (std::size_t i = 0; i <= n; ++i) {
            const auto shift = 6 * (n - i);
            const std::uint8_t top = i == 0 ? kLead[n] : 0x80, mask = i == 0 ? 0x1F : 0x3F;
            bytes[i] = {byte(top | (low >> shift & mask)), byte(top | (high >> shift & mask))};
        }
        add_sequence(bytes, n + 1);
    }

  private:
    static std::uint8_t byte(char32_t value) { return static_cast<std::uint8_t>(value); }
    void split(char32_t low, char32_t middle, char32_t high) {
        add(low, middle);
        add(middle + 1, high);
    }
    std::uint32_t tail(std::size_t n) {
        if (tails_[n] == kNone) {
            tails_[n] = builder_.add_state();
            builder_.add_edge(tails_[n], 0x80, 0xBF, tail(n - 1));
        }
        return tails_[n];
    }
    void add_sequence(const std::array<ByteRange, 4> &bytes, std::size_t n) {
        std::size_t n_own = n;
        while (n_own > 1 && bytes[n_own - 1].low == 0x80 && bytes[n_own - 1].high == 0xBF) --n_own;
        std::uint32_t at = from_;
        for (std::size_t i = 0; i < n_own; ++i) {
            const std::uint32_t next = i + 1 == n_own ? tail(n - n_own) : builder_.add_state();
            builder_.add_edge(at, bytes[i].low, bytes[i].high, next);
            at = next;
        }
    }

    FragmentBuilder &builder_;
    std::uint32_t from_;
    std::array<std::uint32_t, 4> tails_;
};

void add_utf8(FragmentBuilder &builder, std::uint32_t from, std::uint32_t to, const CharSet &set) {
    Utf8Edges edges(builder, from, to);
    for (const CharRange &range : set) edges.add(range.low, range.high);
}

std::uint32_t add_byte(FragmentBuilder &builder, std::uint32_t from, char c) {
    const std::uint32_t to = builder.add_state();
    builder.add_edge(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
    return to;
}

// \b, \u0001 and so on, for the characters that JSON strings may not hold as they are.
void add_escapes(FragmentBuilder &builder, std::uint32_t from, std::uint32_t to,
                 const CharSet &set) {
    constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";  // character, letter
    std::uint32_t escape = kNone, tens[2] = {kNone, kNone}, zeros = kNone;
    for (const CharRange &range : set) {
        for (char32_t c = range.low; c <= range.high; ++c) {
            if (escape == kNone) escape = add_byte(builder, from, '\\');
            std::size_t at = 0;
            while (at < kShort.size() && static_cast<char32_t>(kShort[at]) != c) at += 2;
            if (at < kShort.size()) {
                const auto letter = static_cast<std::uint8_t>(kShort[at + 1]);
                builder.add_edge(escape, letter, letter, to);
                continue;
            }
            if (zeros == kNone)
                zeros =
                    add_byte(builder, add_byte(builder, add_byte(builder, escape, 'u'), '0'), '0');
            std::uint32_t &ten = tens[c >> 4];
            if (ten == kNone) ten = add_byte(builder, zeros, c < 0x10 ? '0' : '1');
            const char32_t digit = c & 15;
            for (const char *digits : {"0123456789abcdef", "0123456789ABCDEF"}) {
                const auto hex = static_cast<std::uint8_t>(digits[digit]);
                if (digit >= 10 || digits[10] == 'a') builder.add_edge(ten, hex, hex, to);
            }
        }
    }
}

}  // namespace

CharSet make_char_set(std::vector<CharRange> ranges) {
    CharSet parts;
    for (const CharRange &range : ranges) {
        for (const CharRange &part :
             {CharRange{0, kSurrogates.low - 1}, CharRange{kSurrogates.high + 1, kLast}}) {
            const CharSet in = within({range}, part);
            parts.insert(parts.end(), in.begin(), in.end());
        }
    }
    std::sort(parts.begin(), parts.end(),
              [](const CharRange &a, const CharRange &b) { return a.low < b.low; });
    CharSet out;
    for (const CharRange &range : parts) {
        if (!out.empty() && range.low <= out.back().high + 1)
            out.back().high = std::max(out.back().high, range.high);
        else
            out.push_back(range);
    }
    return out;
}

CharSet complement(const CharSet &set) {
    std::vector<CharRange> gaps;
    char32_t next = 0;
    for (const CharRange &range : set) {
        if (range.low > next) gaps.push_back({next, range.low - 1});
        next = range.high + 1;
    }
    if (next <= kLast) gaps.push_back({next, kLast});
    return make_char_set(std::move(gaps));
}

void add_chars(FragmentBuilder &builder, std::uint32_t from, std::uint32_t to, const CharSet &set,
               Spelling spelling) {
    if (spelling == Spelling::plain) return add_utf8(builder, from, to, set);
    CharSet plain, escaped;
    for (const CharRange &range :
         {CharRange{0x20, '"' - 1}, CharRange{'"' + 1, '\\' - 1}, CharRange{'\\' + 1, kLast}})
        for (const CharRange &part : within(set, range)) plain.push_back(part);
    for (const CharRange &range : {CharRange{0, 0x1F}, CharRange{'"', '"'}, CharRange{'\\', '\\'}})
        for (const CharRange &part : within(set, range)) escaped.push_back(part);
    add_utf8(builder, from, to, plain);
    add_escapes(builder, from, to, escaped);
}

}  // namespace kimi
