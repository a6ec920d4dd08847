#include "constraint/naive_json.h"

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "constraint/fixtures.h"
#include "text/utf8.h"

namespace kimi::test {
namespace {

using Kind = Json::Kind;

class Reader {
  public:
    explicit Reader(std::string_view text) : text_(text) {}

    std::optional<Spelled> read() {
        Spelled value;
        if (!read_value(value) || at_ != text_.size()) return std::nullopt;
        return value;
    }

  private:
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(char c) {
        if (peek() != c || at_ >= text_.size()) return false;
        ++at_;
        return true;
    }
    bool separator(char c) {
        if (!take(c)) return false;
        take(' ');
        return true;
    }
    bool word(std::string_view w) {
        if (text_.substr(at_, w.size()) != w) return false;
        at_ += w.size();
        return true;
    }
    bool digits() {
        const std::size_t begin = at_;
        while (peek() >= '0' && peek() <= '9') ++at_;
        return at_ > begin;
    }

    bool read_value(Spelled &value) {
        switch (peek()) {
            case 'n':
                return word("null");
            case 't':
            case 'f':
                value.kind = Kind::boolean;
                value.boolean = peek() == 't';
                return word(value.boolean ? "true" : "false");
            case '"':
                return read_string(value);
            case '[':
                value.kind = Kind::array;
                return read_list(']', [&] { return read_value(value.items.emplace_back()); });
            case '{':
                value.kind = Kind::object;
                return read_list('}', [&] {
                    return read_string(value.names.emplace_back()) && separator(':') &&
                           read_value(value.items.emplace_back());
                });
            default:
                return read_number(value);
        }
    }
    template <typename Item>
    bool read_list(char end, Item item) {
        ++at_;
        if (take(end)) return true;
        do {
            if (!item()) return false;
        } while (separator(','));
        return take(end);
    }
    bool read_number(Spelled &value) {
        const std::size_t begin = at_;
        value.kind = Kind::real;
        take('-');
        if (!take('0') && !digits()) return false;
        if (take('.') && !digits()) return false;
        if (take('e') || take('E')) {
            if (!take('+')) take('-');
            if (!digits()) return false;
        }
        value.raw = text_.substr(begin, at_ - begin);
        return true;
    }
    bool read_string(Spelled &value) {
        value.kind = Kind::string;
        if (!take('"')) return false;
        const std::size_t begin = at_;
        std::string lower;  // with hex digits of one case
        while (peek() != '"') {
            if (at_ >= text_.size() || static_cast<unsigned char>(peek()) < 0x20) return false;
            const std::size_t from = at_;
            if (!take('\\')) {
                value.text += text_[at_++];
                lower += text_[from];
                continue;
            }
            if (!read_escape(value.text)) return false;
            for (const char c : text_.substr(from, at_ - from))
                lower += c >= 'A' && c <= 'F' ? static_cast<char>(c | 0x20) : c;
        }
        value.raw = text_.substr(begin, at_ - begin);
        ++at_;
        const std::string dumped = json_string(value.text);
        value.canonical = dumped == '"' + lower + '"';
        return find_invalid_utf8(value.text) == std::string::npos;
    }
    bool read_escape(std::string &out) {
        constexpr std::string_view kLetters = "\"\\/bfnrt", kCharacters = "\"\\/\b\f\n\r\t";
        const char c = peek();
        ++at_;
        if (const auto i = kLetters.find(c); i != kLetters.npos) {
            out += kCharacters[i];
            return true;
        }
        unsigned value = 0;
        if (c != 'u' || !hex(value)) return false;
        if (value >= 0xDC00 && value < 0xE000) return false;
        if (value >= 0xD800 && value < 0xDC00) {
            unsigned low = 0;
            if (!word("\\u") || !hex(low) || low < 0xDC00 || low > 0xDFFF) return false;
            value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
        }
        out += utf8(value);
        return true;
    }
    bool hex(unsigned &value) {
        const std::string four(text_.substr(at_, 4));
        if (four.size() < 4 || four.find_first_not_of("0123456789abcdefABCDEF") != four.npos)
            return false;
        value = static_cast<unsigned>(std::strtoul(four.c_str(), nullptr, 16));
        at_ += 4;
        return true;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

// As a constant: strings and names canonical, numbers as json.dumps() writes them.
bool equal(const Json &json, const Spelled &value) {
    switch (json.kind) {
        case Kind::null:
            return value.kind == Kind::null;
        case Kind::boolean:
            return value.kind == Kind::boolean && value.boolean == json.boolean;
        case Kind::integer:
        case Kind::real:
            return value.kind == Kind::real && value.raw == dump_json(json);
        case Kind::string:
            return value.kind == Kind::string &&
                   value.raw == dump_json(json).substr(1, dump_json(json).size() - 2);
        case Kind::array:
            return value.kind == Kind::array &&
                   std::equal(json.items.begin(), json.items.end(), value.items.begin(),
                              value.items.end(), equal);
        case Kind::object:
            break;
    }
    if (value.kind != Kind::object || value.names.size() != json.members.size()) return false;
    std::vector<std::string> seen;
    for (std::size_t i = 0; i < value.names.size(); ++i) {
        const Json *member = json.find(value.names[i].text);
        if (member == nullptr || !value.names[i].canonical || !equal(*member, value.items[i]))
            return false;
        if (std::find(seen.begin(), seen.end(), value.names[i].text) != seen.end()) return false;
        seen.push_back(value.names[i].text);
    }
    return true;
}

// The constant's members in its order, at all levels.
bool in_order(const Json &json, const Spelled &value) {
    for (std::size_t i = 0; i < value.items.size(); ++i) {
        const Json &inner = json.is(Kind::array) ? json.items[i] : json.members[i].second;
        if (json.is(Kind::object) && value.names[i].text != json.members[i].first) return false;
        if (!in_order(inner, value.items[i])) return false;
    }
    return true;
}

const Json kAny = parse_json("true", "any");
const Json kNothing = parse_json("false", "nothing");

std::string_view type_name(const Spelled &value) {
    switch (value.kind) {
        case Kind::null:
            return "null";
        case Kind::boolean:
            return "boolean";
        case Kind::string:
            return "string";
        case Kind::array:
            return "array";
        case Kind::object:
            return "object";
        default:
            return "number";
    }
}

std::size_t n_characters(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::optional<Spelled> read_spelled(std::string_view text) {
    return Reader(text).read();
}

bool NaiveSchema::allows_object(const Json &schema, const Spelled &value, bool ordered) const {
    const Json *properties = schema.find("properties"), *required = schema.find("required");
    const Json *additional = schema.find("additionalProperties");
    std::vector<std::string> known;
    if (properties != nullptr)
        for (const auto &member : properties->members) known.push_back(member.first);
    if (required != nullptr)
        for (const Json &name : required->items)
            if (std::find(known.begin(), known.end(), name.text) == known.end())
                known.push_back(name.text);
    std::size_t last = 0;
    std::vector<std::string> seen;
    for (std::size_t i = 0; i < value.names.size(); ++i) {
        const Spelled &name = value.names[i];
        if (!name.canonical) return false;
        const std::size_t place = static_cast<std::size_t>(
            std::find(known.begin(), known.end(), name.text) - known.begin());
        if (ordered && place < last) return false;
        last = place;
        const Json *inner = properties == nullptr ? nullptr : properties->find(name.text);
        if (place == known.size()) {
            inner = additional != nullptr ? additional : properties != nullptr ? &kNothing : &kAny;
        } else {
            if (std::find(seen.begin(), seen.end(), name.text) != seen.end()) return false;
            seen.push_back(name.text);
            if (inner == nullptr) inner = additional != nullptr ? additional : &kAny;
        }
        if (!allows(*inner, value.items[i], ordered, {})) return false;
    }
    if (required != nullptr)
        for (const Json &name : required->items)
            if (std::find(seen.begin(), seen.end(), name.text) == seen.end()) return false;
    return true;
}

bool NaiveSchema::allows(const Json &schema, const Spelled &value, bool ordered, Path path) const {
    // Around a loop of references there is nothing new.
    if (std::find(path.begin(), path.end(), &schema) != path.end()) return false;
    path.push_back(&schema);
    if (schema.is(Kind::boolean) && !schema.boolean) return false;
    if (const Json *ref = schema.find("$ref")) {
        const Json *target = &root_;
        std::string rest = ref->text.substr(1);
        while (!rest.empty()) {
            const std::size_t end = std::min(rest.find('/', 1), rest.size());
            target = target->find(rest.substr(1, end - 1));
            rest.erase(0, end);
        }
        return allows(*target, value, ordered, path);
    }
    for (const char *key : {"anyOf", "oneOf", "allOf"})
        if (const Json *list = schema.find(key))
            return std::any_of(list->items.begin(), list->items.end(),
                               [&](const Json &one) { return allows(one, value, ordered, path); });
    // The types that are allowed.
    std::vector<std::string> types;
    if (const Json *type = schema.find("type")) {
        if (type->is(Kind::string)) types.push_back(type->text);
        for (const Json &one : type->items) types.push_back(one.text);
    } else {
        const auto about = [&](const char *type_, std::initializer_list<const char *> keys) {
            for (const char *key : keys)
                if (schema.find(key) != nullptr) return types.push_back(type_);
        };
        about("object", {"properties", "required", "additionalProperties"});
        about("array", {"items", "prefixItems", "minItems", "maxItems"});
        about("string", {"minLength", "maxLength", "pattern"});
        about("number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"});
        if (types.empty()) types = {"null", "boolean", "number", "string", "array", "object"};
    }
    const auto has_type = [&](std::string_view type) {
        return std::find(types.begin(), types.end(), type) != types.end();
    };
    const bool plain_integer =
        value.kind == Kind::real && value.raw.find_first_not_of("-0123456789") == value.raw.npos;
    const Json *constant = schema.find("const"), *list = schema.find("enum");
    if (constant != nullptr || list != nullptr) {
        const auto is = [&](const Json &json) {
            if (!equal(json, value) || (ordered && !in_order(json, value))) return false;
            const bool whole =
                json.is(Kind::integer) ||
                (json.is(Kind::real) &&
                 json.real == static_cast<double>(static_cast<long long>(json.real)));
            return has_type(type_name(value)) || (whole && has_type("integer"));
        };
        return constant != nullptr ? is(*constant)
                                   : std::any_of(list->items.begin(), list->items.end(), is);
    }
    if (!has_type(type_name(value)) && !(plain_integer && has_type("integer"))) return false;
    const auto number = [&](const char *key, double otherwise) {
        const Json *limit = schema.find(key);
        return limit == nullptr ? otherwise : limit->real;
    };
    const auto within = [&](std::size_t n, const char *min, const char *max) {
        return static_cast<double>(n) >= number(min, 0) &&
               static_cast<double>(n) <= number(max, 1e9);
    };
    switch (value.kind) {
        case Kind::real: {
            const double v = std::strtod(value.raw.c_str(), nullptr);
            const double inf = HUGE_VAL;
            if (schema.find("minimum") || schema.find("maximum") ||
                schema.find("exclusiveMinimum") || schema.find("exclusiveMaximum")) {
                if (value.raw.find_first_of("eE") != value.raw.npos) return false;
                if (v == 0 && value.raw[0] == '-' &&
                    (number("minimum", -1) >= 0 || number("exclusiveMinimum", -1) >= 0))
                    return false;
            }
            return v >= number("minimum", -inf) && v <= number("maximum", inf) &&
                   (v > number("exclusiveMinimum", -inf) || v == -inf) &&
                   (v < number("exclusiveMaximum", inf) || v == inf);
        }
        case Kind::string: {
            if (!within(n_characters(value.text), "minLength", "maxLength")) return false;
            const Json *pattern = schema.find("pattern");
            return pattern == nullptr ||
                   (value.canonical && std::regex_search(value.text, std::regex(pattern->text)));
        }
        case Kind::array: {
            if (!within(value.items.size(), "minItems", "maxItems")) return false;
            const Json *prefix = schema.find("prefixItems"), *items = schema.find("items");
            for (std::size_t i = 0; i < value.items.size(); ++i) {
                const bool first = prefix != nullptr && i < prefix->items.size();
                const Json &item = first ? prefix->items[i] : items != nullptr ? *items : kAny;
                if (!allows(item, value.items[i], ordered, {})) return false;
            }
            return true;
        }
        case Kind::object:
            return allows_object(schema, value, ordered);
        default:
            return true;
    }
}

}  // namespace kimi::test
