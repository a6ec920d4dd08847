#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

// Its own assertions would abort the process.
#define JSON_ASSERT(condition) ((void)0)
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace kimi {
namespace {

// Receives the parser's events and builds a Json. `open_` holds the containers being filled.
class Builder {
  public:
    using Parser = nlohmann::json;

    Builder(Json *root, EqualKeys equal_keys) : root_(root), equal_keys_(equal_keys) {}

    std::string error;
    std::size_t error_at = 0;

    bool null() { return place(Json{}); }
    bool boolean(bool value) {
        Json json{.kind = Json::Kind::boolean};
        json.boolean = value;
        return place(std::move(json));
    }
    bool number_integer(std::int64_t value) { return integer(std::to_string(value)); }
    bool number_unsigned(std::uint64_t value) { return integer(std::to_string(value)); }
    bool number_float(double value, const std::string &text) {
        if (text.find_first_not_of("-0123456789") == std::string::npos) return integer(text);
        return place(Json{.kind = Json::Kind::real, .real = value});
    }
    bool string(std::string &value) {
        return place(Json{.kind = Json::Kind::string, .text = std::move(value)});
    }
    bool binary(Parser::binary_t &) { return false; }
    bool start_object(std::size_t) { return open(Json::Kind::object); }
    bool start_array(std::size_t) { return open(Json::Kind::array); }
    bool key(std::string &value) {
        open_.back()->members.push_back({std::move(value), Json{}});
        return true;
    }
    bool end_object() {
        if (!drop_repeated_keys(open_.back()->members)) return false;
        open_.pop_back();
        return true;
    }
    bool end_array() {
        open_.pop_back();
        return true;
    }
    bool parse_error(std::size_t at, const std::string &, const nlohmann::detail::exception &why) {
        error_at = at;
        error = why.what();
        return false;
    }

  private:
    bool integer(std::string digits) {
        Json json{.kind = Json::Kind::integer};
        json.real = std::strtod(digits.c_str(), nullptr);
        json.text = std::move(digits);
        return place(std::move(json));
    }
    bool place(Json &&value) {
        slot() = std::move(value);
        return true;
    }
    bool open(Json::Kind kind) {
        if (open_.size() == kMaxJsonDepth) {
            error = cat("nested deeper than ", kMaxJsonDepth, " levels");
            return false;
        }
        Json &json = slot();
        json.kind = kind;
        open_.push_back(&json);
        return true;
    }
    Json &slot() {
        if (open_.empty()) return *root_;
        Json &top = *open_.back();
        if (top.kind == Json::Kind::object) return top.members.back().second;
        return top.items.emplace_back();
    }
    // As in a Python dict: the first of equal keys gives the place, the last one the value. False
    // where they are refused.
    bool drop_repeated_keys(std::vector<Json::Member> &members) {
        std::vector<std::size_t> order(members.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        const auto key = [&](std::size_t i) -> const std::string & { return members[i].first; };
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
        std::vector<bool> dead(members.size());
        for (std::size_t i = 0; i < order.size();) {
            std::size_t end = i + 1;
            while (end < order.size() && key(order[end]) == key(order[i]))
                dead[order[end++]] = true;
            if (end - i > 1) {
                if (equal_keys_ == EqualKeys::refused) {
                    error = cat("the key \"", key(order[i]), "\" appears twice");
                    return false;
                }
                members[order[i]].second = std::move(members[order[end - 1]].second);
            }
            i = end;
        }
        std::size_t kept = 0;
        for (std::size_t i = 0; i < members.size(); ++i) {
            if (dead[i]) continue;
            if (kept != i) members[kept] = std::move(members[i]);
            ++kept;
        }
        members.resize(kept);
        return true;
    }

    Json *root_;
    EqualKeys equal_keys_;
    std::vector<Json *> open_;
};

// The reason without the library's own prefix and position.
std::string plain_reason(const std::string &why) {
    const std::size_t at = why.find("syntax error");
    return at == std::string::npos ? why : why.substr(at);
}

void dump_string(std::string &out, std::string_view text) {
    static constexpr char kHex[] = "0123456789abcdef";
    out.push_back('"');
    for (const char c : text) {
        switch (c) {
            case '"':
                out += "\\\"";
                break;
            case '\\':
                out += "\\\\";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            case '\t':
                out += "\\t";
                break;
            case '\b':
                out += "\\b";
                break;
            case '\f':
                out += "\\f";
                break;
            default:
                if (static_cast<unsigned char>(c) < 0x20) {
                    out += "\\u00";
                    out.push_back(kHex[c >> 4]);
                    out.push_back(kHex[c & 15]);
                } else {
                    out.push_back(c);
                }
        }
    }
    out.push_back('"');
}

struct Dumper {
    std::string_view item_separator, key_separator;
    std::string out;

    void dump(const Json &value) {
        switch (value.kind) {
            case Json::Kind::null:
                out += "null";
                break;
            case Json::Kind::boolean:
                out += value.boolean ? "true" : "false";
                break;
            case Json::Kind::integer:
                out += value.text;
                break;
            case Json::Kind::real:
                out += python_repr(value.real);
                break;
            case Json::Kind::string:
                dump_string(out, value.text);
                break;
            case Json::Kind::array: {
                out.push_back('[');
                for (std::size_t i = 0; i < value.items.size(); ++i) {
                    if (i > 0) out += item_separator;
                    dump(value.items[i]);
                }
                out.push_back(']');
                break;
            }
            case Json::Kind::object: {
                out.push_back('{');
                for (std::size_t i = 0; i < value.members.size(); ++i) {
                    if (i > 0) out += item_separator;
                    dump_string(out, value.members[i].first);
                    out += key_separator;
                    dump(value.members[i].second);
                }
                out.push_back('}');
                break;
            }
        }
    }
};

}  // namespace

const Json *Json::find(std::string_view key) const {
    for (const Member &member : members)
        if (member.first == key) return &member.second;
    return nullptr;
}

Json parse_json(std::string_view text, std::string_view what, kimi_status status,
                EqualKeys equal_keys) {
    // The parser would take it for the end.
    const std::size_t nul = text.find('\0');
    if (nul != std::string_view::npos)
        fail(status, what, ": invalid JSON at byte ", nul + 1, ": a NUL character");
    Json root;
    Builder builder(&root, equal_keys);
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder))
        fail(status, what, ": invalid JSON",
             builder.error_at > 0 ? cat(" at byte ", builder.error_at) : "", ": ",
             plain_reason(builder.error));
    return root;
}

std::string dump_json(const Json &value, std::string_view item_separator,
                      std::string_view key_separator) {
    Dumper dumper{item_separator, key_separator, {}};
    dumper.dump(value);
    return std::move(dumper.out);
}

std::string python_repr(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char digits[40];
    const double size = std::fabs(value);
    const bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
    const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
    std::string out(digits, std::to_chars(digits, digits + sizeof digits, value, format).ptr);
    if (plain && out.find('.') == std::string::npos) out += ".0";
    return out;
}

std::string_view kind_name(Json::Kind kind) {
    switch (kind) {
        case Json::Kind::null:
            return "null";
        case Json::Kind::boolean:
            return "a boolean";
        case Json::Kind::integer:
            return "an integer";
        case Json::Kind::real:
            return "a number";
        case Json::Kind::string:
            return "a string";
        case Json::Kind::array:
            return "an array";
        case Json::Kind::object:
            return "an object";
    }
    return "?";
}

}  // namespace kimi
