#include "constraint/number_range.h"

#include <charconv>

#include "base/error.h"

namespace kimi {
namespace {

constexpr std::string_view kNothing = "[]";
constexpr std::string_view kAnyWhole = "(?:0|[1-9][0-9]*)";

struct Decimal {
    bool negative = false;
    std::string whole, fraction;  // digits; the fraction does not end with 0
};

Decimal decimal(const Json &json) {
    std::string text = json.text;
    if (!json.is(Json::Kind::integer)) {
        char digits[400];  // the longest double has 309 digits, or 0. and 324
        const auto end =
            std::to_chars(digits, digits + sizeof digits, json.real, std::chars_format::fixed);
        text.assign(digits, end.ptr);
    }
    Decimal out;
    out.negative = text.starts_with('-');
    if (out.negative) text.erase(0, 1);
    const std::size_t point = std::min(text.find('.'), text.size());
    out.whole = text.substr(0, point);
    out.fraction = point < text.size() ? text.substr(point + 1) : "";
    out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
    if (out.whole == "0" && out.fraction.empty()) out.negative = false;
    return out;
}

std::string digit(char low, char high) {
    return low > high ? std::string(kNothing) : cat("[", low, "-", high, "]");
}
std::string digits(std::size_t n) {
    return cat("[0-9]{", n, "}");
}

// Digit strings that agree with `text` up to some digit, which is greater, or smaller. `rest` says
// what follows that digit: n or any number of digits.
std::string differing(std::string_view text, bool greater, bool fraction) {
    std::string out(kNothing);
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char d = text[i];
        const bool leads = i == 0 && !fraction && text.size() > 1;  // no leading zero
        const std::string here = greater ? digit(static_cast<char>(d + 1), '9')
                                         : digit(leads ? '1' : '0', static_cast<char>(d - 1));
        out += cat("|", text.substr(0, i), here, fraction ? "[0-9]*" : digits(text.size() - i - 1));
    }
    return cat("(?:", out, ")");
}

// The whole part is that of the limit; what may follow.
std::string fraction_above(const std::string &limit, bool or_equal, bool integers) {
    if (integers) return limit.empty() && or_equal ? "" : std::string(kNothing);
    if (limit.empty()) return or_equal ? "(?:\\.[0-9]+)?" : "\\.[0-9]*[1-9][0-9]*";
    return cat("\\.(?:", differing(limit, true, true), "|", limit,
               or_equal ? "[0-9]*" : "[0-9]*[1-9][0-9]*", ")");
}
std::string fraction_below(const std::string &limit, bool or_equal, bool integers) {
    if (integers) return !limit.empty() || or_equal ? "" : std::string(kNothing);
    if (limit.empty()) return or_equal ? "(?:\\.0+)?" : std::string(kNothing);
    std::string out = differing(limit, false, true);
    for (std::size_t n = 1; n < limit.size(); ++n) out += cat("|", limit.substr(0, n));
    if (or_equal) out += cat("|", limit, "0*");
    return cat("(?:\\.(?:", out, "))?");
}

// Numbers without sign at or above the limit's size.
std::string above(const Decimal &limit, bool or_equal, bool integers) {
    const std::string more = cat("(?:[1-9]", digits(limit.whole.size()), "[0-9]*|",
                                 differing(limit.whole, true, false), ")");
    return cat("(?:", more, integers ? "" : "(?:\\.[0-9]+)?", "|", limit.whole,
               fraction_above(limit.fraction, or_equal, integers), ")");
}
std::string below(const Decimal &limit, bool or_equal, bool integers) {
    const std::size_t n = limit.whole.size();
    const std::string shorter = n == 1 ? std::string(kNothing) : cat("0|[1-9][0-9]{0,", n - 2, "}");
    const std::string less = cat("(?:", shorter, "|", differing(limit.whole, false, false), ")");
    return cat("(?:", less, integers ? "" : "(?:\\.[0-9]+)?", "|", limit.whole,
               fraction_below(limit.fraction, or_equal, integers), ")");
}

}  // namespace

std::string number_pattern(Bound bound, const Json &limit, bool integers) {
    const Decimal d = decimal(limit);
    const bool lower = bound == Bound::at_least || bound == Bound::more_than;
    const bool or_equal = bound == Bound::at_least || bound == Bound::at_most;
    const std::string any = cat(kAnyWhole, integers ? "" : "(?:\\.[0-9]+)?");
    if (lower)
        return d.negative ? cat(any, "|-", below(d, or_equal, integers))
                          : above(d, or_equal, integers);
    const bool below_zero = d.negative || (!or_equal && d.whole == "0" && d.fraction.empty());
    return below_zero ? cat("-", above(d, or_equal, integers))
                      : cat("-", any, "|", below(d, or_equal, integers));
}

}  // namespace kimi
