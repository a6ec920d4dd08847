#include "constraint/random_schema.h"

#include <algorithm>

namespace kimi::test {
namespace {

constexpr const char *kNames[] = {"a",      "ab",   "abc", "b",        "ä",
                                  "q\\\"x", "n\\n", "",    "c\\u0001", "é€"};
constexpr const char *kPatterns[] = {"^[a-c]+$", "b",  "^a|b$", "^(ab?)*$",
                                     "\\\\d{2}", "^$", "\\\\s", "[^a]"};

}  // namespace

std::string RandomSchema::name() {
    return cat('"', pick(random_, kNames), '"');
}

std::string RandomSchema::literal(int depth) {
    constexpr const char *kLiterals[] = {"null", "true",  "1",      "-12",         "2.5",
                                         "0",    "\"a\"", "\"bc\"", "\"\\n\\\"\"", "\"ä😀\"",
                                         "[]",   "{}",    "\"\""};
    if (depth == 0 || chance(80)) return pick(random_, kLiterals);
    if (chance(50)) return cat("[", literal(depth - 1), ", ", literal(depth - 1), "]");
    return cat("{\"a\": ", literal(depth - 1), ", \"ab\": ", literal(depth - 1), "}");
}

std::string RandomSchema::list(std::size_t n, int depth) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out += (i > 0 ? ", " : "") + schema(depth);
    return cat("[", out, "]");
}

std::string RandomSchema::object_keywords(int depth) {
    std::string out, names;
    for (std::size_t i = below(random_, 5); i > 0; --i) {
        const std::string one = name();
        if (out.find(one + ':') != out.npos) continue;
        out += cat(out.empty() ? "" : ", ", one, ": ", schema(depth));
        if (chance(40)) names += cat(names.empty() ? "" : ", ", one);
    }
    if (chance(5)) names += cat(names.empty() ? "" : ", ", name());
    out = out.empty() ? "" : cat(", \"properties\": {", out, "}");
    if (!names.empty()) out += cat(", \"required\": [", names, "]");
    if (chance(40))
        out += cat(", \"additionalProperties\": ",
                   chance(50) ? (chance(50) ? "true" : "false") : schema(depth));
    return out;
}

std::string RandomSchema::typed(int depth) {
    constexpr const char *kTypes[] = {"null",   "boolean", "integer", "number", "string",
                                      "string", "array",   "object",  "object"};
    const std::string type = pick(random_, kTypes);
    std::string out = cat("\"type\": \"", type, '"');
    if (chance(20)) out = cat("\"type\": [\"", type, "\", \"", pick(random_, kTypes), "\"]");
    const auto maybe = [&](const char *key, std::size_t max) {
        if (chance(30)) out += cat(", \"", key, "\": ", below(random_, max));
    };
    if (type == "integer" || type == "number") {
        for (const char *key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
            if (chance(25)) out += cat(", \"", key, "\": ", number(), chance(30) ? ".5" : "");
    } else if (type == "string") {
        maybe("minLength", 4);
        maybe("maxLength", 6);
        if (chance(30)) out += cat(", \"pattern\": \"", pick(random_, kPatterns), '"');
    } else if (type == "array") {
        maybe("minItems", 4);
        maybe("maxItems", 6);
        if (chance(70)) out += ", \"items\": " + schema(depth - 1);
        if (chance(30)) out += ", \"prefixItems\": " + list(below(random_, 4), depth - 1);
    } else if (type == "object") {
        out += object_keywords(depth - 1);
    }
    return out;
}

std::string RandomSchema::schema(int depth) {
    if (depth <= 0) return chance(70) ? "{\"type\": \"integer\"}" : "{}";
    if (chance(70)) return cat("{", typed(depth), "}");
    if (chance(30))
        return cat("{\"enum\": [", literal(2), ", ", literal(2), ", ", literal(2), "]}");
    if (chance(20)) return cat("{\"const\": ", literal(2), "}");
    if (chance(40))
        return cat("{\"", chance(70) ? "anyOf" : "oneOf",
                   "\": ", list(1 + below(random_, 3), depth - 1), "}");
    if (chance(10)) return cat("{\"allOf\": ", list(1, depth - 1), "}");
    constexpr const char *kRefs[] = {"#/$defs/x", "#/$defs/y", "#"};
    return cat("{\"$ref\": \"", pick(random_, kRefs), "\"}");
}

std::string RandomSchema::any_string() {
    constexpr const char *kPieces[] = {"a",
                                       "b",
                                       "ab",
                                       "c",
                                       "12",
                                       " ",
                                       "ä",
                                       "😀",
                                       "\\n",
                                       "\\\"",
                                       "\\u0041",
                                       "\\/",
                                       "\\ud83d\\ude00",
                                       "\\u001F"};
    std::string out;
    for (std::size_t i = below(random_, 5); i > 0; --i) out += pick(random_, kPieces);
    return cat('"', out, '"');
}

std::string RandomSchema::array_value(const Json &root, const Json &schema, int depth) {
    static const Json kAny = parse_json("{}", "any");
    const Json *prefix = schema.find("prefixItems"), *items = schema.find("items");
    const auto limit = [&](const char *key, std::size_t otherwise) {
        const Json *value = schema.find(key);
        return value == nullptr ? otherwise : static_cast<std::size_t>(value->real);
    };
    const std::size_t min = limit("minItems", 0), max = limit("maxItems", min + 3);
    std::size_t n = min + below(random_, std::max(max, min) - min + 1);
    if (chance(5)) ++n;
    std::string out;
    for (std::size_t i = 0; i < n; ++i) {
        const Json &item = prefix != nullptr && i < prefix->items.size() ? prefix->items[i]
                           : items != nullptr                            ? *items
                                                                         : kAny;
        out += (i > 0 ? "," + space() : "") + value(root, item, depth + 1);
    }
    return cat("[", out, "]");
}

std::string RandomSchema::object_value(const Json &root, const Json &schema, int depth) {
    static const Json kAny = parse_json("{}", "any");
    std::vector<std::string> members;
    const Json *properties = schema.find("properties"), *required = schema.find("required");
    const Json *additional = schema.find("additionalProperties");
    const auto add = [&](const std::string &key, const Json &inner) {
        members.push_back(cat(key, ":", space(), value(root, inner, depth + 1)));
    };
    const auto is_required = [&](const std::string &key) {
        return required != nullptr && std::any_of(required->items.begin(), required->items.end(),
                                                  [&](const Json &r) { return r.text == key; });
    };
    if (properties != nullptr)
        for (const auto &[key, inner] : properties->members)
            if (chance(is_required(key) ? 97 : depth > 4 ? 10 : 50)) add(json_string(key), inner);
    if (properties == nullptr || (additional != nullptr && chance(40)))
        for (std::size_t i = below(random_, 3); i > 0; --i)
            add(chance(80) ? name() : any_string(), additional != nullptr ? *additional : kAny);
    if (chance(50)) std::shuffle(members.begin(), members.end(), random_);
    std::string out;
    for (const std::string &member : members) out += (out.empty() ? "" : "," + space()) + member;
    return cat("{", out, "}");
}

std::string RandomSchema::value(const Json &root, const Json &schema, int depth) {
    if (depth > 12) return "1";
    if (const Json *ref = schema.find("$ref")) {
        const Json *target = &root;
        if (ref->text.size() > 1) target = root.find("$defs")->find(ref->text.substr(8));
        return value(root, *target, depth + 1);
    }
    for (const char *key : {"anyOf", "oneOf", "allOf"})
        if (const Json *list = schema.find(key))
            return value(root, list->items[below(random_, list->items.size())], depth + 1);
    if (const Json *one = schema.find("const")) return dump_json(*one);
    if (const Json *list = schema.find("enum"))
        return dump_json(list->items[below(random_, list->items.size())], "," + space(),
                         ":" + space());
    std::string type;
    if (const Json *types = schema.find("type"))
        type = types->is(Json::Kind::string)
                   ? types->text
                   : types->items[below(random_, types->items.size())].text;
    constexpr const char *kTypes[] = {"null",   "boolean", "integer", "number",
                                      "string", "array",   "object"};
    if (type.empty() || chance(2)) type = depth > 5 ? "null" : pick(random_, kTypes);
    if (type == "null") return "null";
    if (type == "boolean") return chance(50) ? "true" : "false";
    if (type == "integer") return number();
    if (type == "number") return number() + (chance(50) ? ".5" : "") + (chance(10) ? "e1" : "");
    if (type == "string") return any_string();
    return type == "array" ? array_value(root, schema, depth) : object_value(root, schema, depth);
}

std::string damaged(Random &random, std::string text) {
    constexpr const char *kPieces[] = {" ",  ",",    "\"",   "}",    "]",        "{",    "[",
                                       "0",  "-",    "e",    "\\",   "a",        ":",    "1",
                                       "\n", "\xC3", "\xA4", "null", "\"a\":1,", "\"\":"};
    for (std::size_t i = 1 + below(random, 2); i > 0; --i) {
        const std::size_t at = below(random, text.size() + 1);
        switch (below(random, 3)) {
            case 0:
                text.insert(at, pick(random, kPieces));
                break;
            case 1:
                text.erase(at, 1);
                break;
            default:
                text.replace(at, std::min<std::size_t>(1, text.size() - at), pick(random, kPieces));
        }
    }
    return text;
}

}  // namespace kimi::test
