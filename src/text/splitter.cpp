#include "text/splitter.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace kimi {
namespace {

constexpr std::size_t kWindow = 400000;  // code points
constexpr std::size_t kMaxRun = 25000;   // code points

class Matcher {
  public:
    explicit Matcher(std::string_view text) : text_(text) {}

    std::size_t piece() const {
        const Char first = at(0);
        if (first.has(kHan)) return skip(kHan, 0);
        if (const std::size_t end = word(first)) return end;
        if (first.has(kNumber)) return skip(kNumber, 0, 3);
        if (const std::size_t end = symbols(first)) return end;
        return white_space();
    }

  private:
    struct Char {
        std::uint8_t bits;  // of CharClass; none at the end of the text
        std::size_t size;
        bool has(int bit) const { return (bits & bit) != 0; }
    };

    Char at(std::size_t i) const {
        if (i >= text_.size()) return {0, 0};
        const Utf8Char c = first_utf8_char(text_.substr(i));
        return {char_class(c.value), c.size};
    }

    // The end of a run of at most n characters of a class.
    std::size_t skip(int bits, std::size_t i, std::size_t n = std::string_view::npos) const {
        for (Char c = at(i); n > 0 && c.has(bits); c = at(i)) i += c.size, --n;
        return i;
    }

    // Rules 2 and 3; 0 if neither matches. A regular expression tries, in this order: rule 2 with
    // the prefix and without, rule 3 with it and without. Only a combining mark can be both prefix
    // and word; where rule 2 fails after it, the mark alone matches rule 2.
    std::size_t word(Char first) const {
        const bool prefix = first.has(kSymbol | kSpace) && !first.has(kNewline);
        if (!prefix && !first.has(kUpper | kLower)) return 0;
        const std::size_t start = prefix ? first.size : 0;
        std::size_t i = start, lower_end = 0;  // lower_end: of the longest UP* LO+
        for (Char c = at(i); c.has(kUpper); c = at(i)) {
            i += c.size;
            if (c.has(kLower)) lower_end = i;
        }
        if (at(i).has(kLower)) lower_end = skip(kLower, i);
        if (lower_end != 0) return tail(lower_end);
        if (prefix && first.has(kLower)) return tail(start);
        return i > start ? tail(i) : 0;
    }

    // The end of the contraction at i, or i.
    std::size_t tail(std::size_t i) const {
        const std::string_view rest = text_.substr(i);
        if (rest.size() < 2 || rest[0] != '\'') return i;
        const auto letter = [&](std::size_t k) {
            return k < rest.size() && rest[k] >= 'A' ? rest[k] | 0x20 : 0;
        };
        switch (letter(1)) {
            case 's':
            case 't':
            case 'm':
            case 'd':
                return i + 2;
            case 'r':
            case 'v':
                return letter(2) == 'e' ? i + 3 : i;
            case 'l':
                return letter(2) == 'l' ? i + 3 : i;
        }
        // The long s, whose upper case is S.
        return rest.substr(1).starts_with("\u017F") ? i + 3 : i;
    }

    // Rule 5; 0 if it does not match.
    std::size_t symbols(Char first) const {
        const std::size_t start = text_[0] == ' ' ? first.size : 0;
        const std::size_t end = skip(kSymbol, start);
        return end > start ? skip(kNewline, end) : 0;
    }

    // Rules 6, 7 and 8.
    std::size_t white_space() const {
        std::size_t i = 0, last = 0, newline_end = 0;
        for (Char c = at(0); c.has(kSpace); c = at(i)) {
            last = i;
            i += c.size;
            if (c.has(kNewline)) newline_end = i;
        }
        if (newline_end != 0) return newline_end;
        return i == text_.size() || last == 0 ? i : last;
    }

    std::string_view text_;
};

}  // namespace

std::size_t first_piece(std::string_view text) {
    return Matcher(text).piece();
}

std::vector<std::size_t> hard_cuts(std::string_view text) {
    std::vector<std::size_t> cuts;
    if (text.size() <= kMaxRun) return cuts;
    std::size_t window = 0, run = 0;
    bool run_is_space = false;
    for (std::size_t i = 0; i < text.size();) {
        const Utf8Char c = first_utf8_char(text.substr(i));
        const bool space = is_python_space(c.value);
        if (space != run_is_space) run = 0;
        run_is_space = space;
        if (window == kWindow) window = 0;
        if (i > 0 && (window == 0 || run == kMaxRun)) cuts.push_back(i), run = 0;
        ++window, ++run;
        i += c.size;
    }
    return cuts;
}

}  // namespace kimi
