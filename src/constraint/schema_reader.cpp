#include "constraint/schema_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>

#include "constraint/number_range.h"
#include "constraint/regex.h"

namespace kimi {
namespace {

constexpr std::uint32_t kNone = SchemaGraph::kNone;
constexpr std::uint32_t kUnlimited = SchemaGraph::kUnlimited;

constexpr std::string_view kNumber = "-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?";
constexpr std::string_view kInteger = "-?(?:0|[1-9][0-9]*)";
// One character of a JSON string, with every escape that JSON has.
constexpr std::string_view kCharacter =
    "[^\\x00-\\x1f\"\\\\]|\\\\(?:[\"\\\\/bfnrt]|u(?:[0-9a-cefA-CEF][0-9a-fA-F]{3}|"
    "[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))";
constexpr std::size_t kMaxDigits = 400;   // of a bound
constexpr double kMaxCount = 2147483647;  // counts beyond are as good as this one

enum Type : unsigned {
    kNullType = 1,
    kBooleanType = 2,
    kIntegerType = 4,
    kNumberType = 8,  // also integers
    kStringType = 16,
    kArrayType = 32,
    kObjectType = 64,
    kAllTypes = 127,
};
constexpr std::pair<std::string_view, unsigned> kTypes[] = {
    {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType},
    {"number", kNumberType}, {"string", kStringType},   {"array", kArrayType},
    {"object", kObjectType}};

// Keywords about the values of some types.
constexpr std::pair<std::string_view, unsigned> kTyped[] = {{"properties", kObjectType},
                                                            {"required", kObjectType},
                                                            {"additionalProperties", kObjectType},
                                                            {"items", kArrayType},
                                                            {"prefixItems", kArrayType},
                                                            {"minItems", kArrayType},
                                                            {"maxItems", kArrayType},
                                                            {"minLength", kStringType},
                                                            {"maxLength", kStringType},
                                                            {"pattern", kStringType},
                                                            {"minimum", kNumberType},
                                                            {"maximum", kNumberType},
                                                            {"exclusiveMinimum", kNumberType},
                                                            {"exclusiveMaximum", kNumberType}};
constexpr std::string_view kAlone[] = {"$ref", "anyOf", "oneOf", "allOf", "enum", "const"};
constexpr std::string_view kAnnotations[] = {
    "title",           "description",      "default",  "examples",
    "example",         "format",           "$schema",  "$id",
    "$comment",        "deprecated",       "readOnly", "writeOnly",
    "contentEncoding", "contentMediaType", "$defs",    "definitions"};

template <typename List>
bool has(const List &list, std::string_view word) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

unsigned type_of(const Json &value) {
    switch (value.kind) {
        case Json::Kind::null:
            return kNullType;
        case Json::Kind::boolean:
            return kBooleanType;
        case Json::Kind::integer:
            return kIntegerType | kNumberType;
        case Json::Kind::real:
            return std::floor(value.real) == value.real ? kIntegerType | kNumberType
                                                        : 0u + kNumberType;
        case Json::Kind::string:
            return kStringType;
        case Json::Kind::array:
            return kArrayType;
        case Json::Kind::object:
            return kObjectType;
    }
    return 0;
}

// Accepts these words and nothing else.
Fragment one_of(std::vector<std::string> words, WorkMeter &meter) {
    std::sort(words.begin(), words.end());
    FragmentBuilder builder(meter);
    std::vector<std::uint32_t> path{builder.add_state()};  // of the word before
    const std::uint32_t end = builder.add_state();
    std::string_view before;
    for (const std::string &word : words) {
        meter.step(word.size());
        const auto differ = std::mismatch(before.begin(), before.end(), word.begin(), word.end());
        path.resize(static_cast<std::size_t>(differ.first - before.begin()) + 1);
        for (std::size_t i = path.size() - 1; i < word.size(); ++i) {
            const auto byte = static_cast<std::uint8_t>(word[i]);
            path.push_back(builder.add_state());
            builder.add_edge(path[i], byte, byte, path[i + 1]);
        }
        builder.add_move(path.back(), end);
        before = word;
    }
    return builder.finish(end);
}

std::string escaped_step(std::string_view step) {
    std::string out = "/";
    for (const char c : step)
        if (c == '~')
            out += "~0";
        else if (c == '/')
            out += "~1";
        else
            out += c;
    return out;
}

// The next step of a JSON pointer in a URI fragment.
std::string take_step(std::string_view &pointer) {
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    std::string out;
    for (std::size_t i = 1; i < end; ++i) {
        unsigned byte = 0;
        const char *hex = pointer.data() + i + 1;
        if (pointer[i] == '%' && i + 2 < end &&
            std::from_chars(hex, hex + 2, byte, 16).ptr == hex + 2) {
            out += static_cast<char>(byte);
            i += 2;
        } else if (pointer[i] == '~' && i + 1 < end &&
                   (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
            out += pointer[++i] == '0' ? '~' : '/';
        } else {
            out += pointer[i];
        }
    }
    pointer.remove_prefix(end);
    return out;
}

const Json *step_into(const Json &json, const std::string &step) {
    if (!json.is(Json::Kind::array)) return json.find(step);
    std::size_t index = 0;
    const char *end = step.data() + step.size();
    const bool good = !step.empty() && std::from_chars(step.data(), end, index).ptr == end;
    return good && index < json.items.size() ? &json.items[index] : nullptr;
}

}  // namespace

SchemaReader::Place SchemaReader::Place::child(const Json &inner, std::string_view step) const {
    return {&inner, is_value, pointer + escaped_step(step), document};
}

template <typename... Parts>
void SchemaReader::invalid(const Place &place, const Parts &...reason) {
    fail(KIMI_INVALID_ARGUMENT, place.document->what, "#", place.pointer, ": ", reason...);
}
template <typename... Parts>
void SchemaReader::unsupported(const Place &place, const Parts &...reason) {
    fail(KIMI_UNSUPPORTED, place.document->what, "#", place.pointer, ": ", reason...,
         "not supported");
}

std::uint32_t SchemaReader::read(const Json &schema, std::string what) {
    auto document = std::make_shared<const Document>(Document{&schema, std::move(what)});
    const std::uint32_t root = node_of({&schema, false, "", std::move(document)});
    while (!todo_.empty()) {
        const auto [node, place] = std::move(todo_.back());
        todo_.pop_back();
        fill(node, place);
    }
    return root;
}

std::uint32_t SchemaReader::any() {
    if (any_ != kNone) return any_;
    any_ = static_cast<std::uint32_t>(graph_.nodes.size());
    graph_.nodes.emplace_back();
    const Json schema{.kind = Json::Kind::object};
    const auto document = std::make_shared<const Document>(Document{&schema, ""});
    add_typed(any_, {&schema, false, "", document}, kAllTypes);
    return any_;
}

std::uint32_t SchemaReader::node_of(const Place &place) {
    const auto [at, is_new] = nodes_.emplace(std::pair(place.json, place.is_value),
                                             static_cast<std::uint32_t>(graph_.nodes.size()));
    if (is_new) {
        meter_->check_states(graph_.nodes.size());
        graph_.nodes.emplace_back();
        todo_.emplace_back(at->second, place);
    }
    return at->second;
}

void SchemaReader::fill(std::uint32_t node, const Place &place) {
    const Json &schema = *place.json;
    if (place.is_value) return add_values(node, {place}, kAllTypes);
    if (schema.is(Json::Kind::boolean)) {
        if (schema.boolean) graph_.nodes[node].others = {any()};
        return;
    }
    if (!schema.is(Json::Kind::object))
        invalid(place, "expected an object or a boolean, found ", kind_name(schema.kind));
    check_keywords(place);
    if (schema.find("$ref") != nullptr) {
        const std::uint32_t target = node_of(resolve(expect(place, "$ref", Json::Kind::string)));
        graph_.nodes[node].others = {target};
    } else if (schema.find("const") != nullptr) {
        Place value = place.child(*schema.find("const"), "const");
        value.is_value = true;
        add_values(node, {value}, types_of(place));
    } else if (schema.find("enum") != nullptr) {
        Place list = expect(place, "enum", Json::Kind::array);
        list.is_value = true;
        std::vector<Place> values;
        for (std::size_t i = 0; i < list.json->items.size(); ++i)
            values.push_back(list.child(list.json->items[i], std::to_string(i)));
        add_values(node, values, types_of(place));
    } else {
        for (const std::string_view key : {"anyOf", "oneOf", "allOf"})
            if (schema.find(key) != nullptr)
                return add_alternatives(node, expect(place, key, Json::Kind::array));
        add_typed(node, place, types_of(place));
    }
}

// Refuses unknown keywords, and known ones beside those that must stand alone.
void SchemaReader::check_keywords(const Place &schema) {
    std::string_view alone, other;
    for (const auto &[key, value] : schema.json->members) {
        const Place place = schema.child(value, key);
        if (has(kAnnotations, key) || key.starts_with("x-")) continue;
        if (key == "uniqueItems" && value.is(Json::Kind::boolean) && !value.boolean) continue;
        const bool typed = std::any_of(std::begin(kTyped), std::end(kTyped),
                                       [&k = key](const auto &entry) { return entry.first == k; });
        if (has(kAlone, key)) {
            if (!alone.empty()) unsupported(place, "beside ", alone, " this is ");
            alone = key;
        } else if (typed || key == "type") {
            if (typed || other.empty()) other = key;
        } else {
            unsupported(place, "this keyword is ");
        }
    }
    const bool values = alone == "enum" || alone == "const";
    if (!alone.empty() && !other.empty() && !(values && other == "type"))
        unsupported(schema.child(*schema.json->find(other), other), "beside ", alone, " this is ");
}

SchemaReader::Place SchemaReader::expect(const Place &parent, std::string_view key,
                                         Json::Kind kind) {
    Place place = parent.child(*parent.json->find(key), key);
    if (!place.json->is(kind))
        invalid(place, "expected ", kind_name(kind), ", found ", kind_name(place.json->kind));
    return place;
}

SchemaReader::Types SchemaReader::types_of(const Place &schema) {
    const Json *type = schema.json->find("type");
    Types types = 0;
    if (type == nullptr) {
        for (const auto &[key, about] : kTyped)
            if (schema.json->find(key) != nullptr) types |= about;
        return types == 0 ? kAllTypes : types;
    }
    const Place place = schema.child(*type, "type");
    const auto add = [&](const Json &name) {
        const auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto &t) {
            return name.is(Json::Kind::string) && t.first == name.text;
        });
        if (known == std::end(kTypes)) invalid(place, "expected names of JSON types");
        types |= known->second;
    };
    if (type->is(Json::Kind::array)) {
        for (const Json &name : type->items) add(name);
    } else {
        add(*type);
    }
    return types;
}

void SchemaReader::add_alternatives(std::uint32_t node, const Place &list) {
    const auto &items = list.json->items;
    if (list.pointer.ends_with("/allOf") && items.size() != 1)
        unsupported(list, "more or less than one schema is ");
    for (std::size_t i = 0; i < items.size(); ++i) {
        const std::uint32_t other = node_of(list.child(items[i], std::to_string(i)));
        graph_.nodes[node].others.push_back(other);
    }
}

void SchemaReader::add_values(std::uint32_t node, const std::vector<Place> &values, Types types) {
    std::vector<std::string> words, strings;
    for (const Place &place : values) {
        const Json &value = *place.json;
        if ((type_of(value) & types) == 0) continue;
        if (value.is(Json::Kind::array)) {
            SchemaGraph::Array array;
            for (std::size_t i = 0; i < value.items.size(); ++i)
                array.prefix.push_back(node_of(place.child(value.items[i], std::to_string(i))));
            array.min = array.max = static_cast<std::uint32_t>(value.items.size());
            graph_.nodes[node].arrays.push_back(static_cast<std::uint32_t>(graph_.arrays.size()));
            graph_.arrays.push_back(std::move(array));
        } else if (value.is(Json::Kind::object)) {
            SchemaGraph::Object object;
            for (const auto &[name, inner] : value.members)
                object.properties.push_back({name, node_of(place.child(inner, name)), true});
            graph_.nodes[node].objects.push_back(static_cast<std::uint32_t>(graph_.objects.size()));
            graph_.objects.push_back(std::move(object));
        } else {
            const std::string text = dump_json(value);
            if (value.is(Json::Kind::string))
                strings.push_back(text.substr(1, text.size() - 2));
            else
                words.push_back(text);
        }
    }
    if (!words.empty()) {
        graph_.nodes[node].words.push_back(static_cast<std::uint32_t>(graph_.words.size()));
        graph_.words.push_back(one_of(std::move(words), *meter_));
    }
    if (!strings.empty()) {
        graph_.nodes[node].strings.push_back(static_cast<std::uint32_t>(graph_.strings.size()));
        graph_.strings.push_back({one_of(std::move(strings), *meter_)});
    }
}

void SchemaReader::add_typed(std::uint32_t node, const Place &schema, Types types) {
    if (types & kNullType) add_word(node, "null");
    if (types & kBooleanType) add_word(node, "true|false");
    if (types & (kIntegerType | kNumberType)) add_number(node, schema, (types & kNumberType) == 0);
    // These may add nodes.
    if (types & kStringType) {
        const std::uint32_t body = string(schema);
        graph_.nodes[node].strings.push_back(body);
    }
    if (types & kArrayType) {
        const std::uint32_t body = array(schema);
        graph_.nodes[node].arrays.push_back(body);
    }
    if (types & kObjectType) {
        const std::uint32_t body = object(schema);
        graph_.nodes[node].objects.push_back(body);
    }
}

void SchemaReader::add_word(std::uint32_t node, const std::string &pattern) {
    const auto [at, is_new] =
        words_.emplace(pattern, static_cast<std::uint32_t>(graph_.words.size()));
    if (is_new)
        graph_.words.push_back(
            compile_regex(pattern, Anchoring::whole, Spelling::plain, "JSON", *meter_));
    graph_.nodes[node].words.push_back(at->second);
}

// Numbers that keep every bound; without bounds they may have an exponent.
void SchemaReader::add_number(std::uint32_t node, const Place &schema, bool integers) {
    constexpr std::pair<std::string_view, Bound> kBounds[] = {
        {"minimum", Bound::at_least},
        {"exclusiveMinimum", Bound::more_than},
        {"maximum", Bound::at_most},
        {"exclusiveMaximum", Bound::less_than}};
    std::string key;
    Fragment bounded;
    for (const auto &[keyword, bound] : kBounds) {
        const Json *limit = schema.json->find(keyword);
        if (limit == nullptr) continue;
        const Place place = schema.child(*limit, keyword);
        if (!limit->is(Json::Kind::integer) && !limit->is(Json::Kind::real))
            invalid(place, "expected a number, found ", kind_name(limit->kind));
        if (limit->text.size() > kMaxDigits) unsupported(place, "a bound of so many digits is ");
        const std::string pattern = number_pattern(bound, *limit, integers);
        Fragment one = compile_regex(pattern, Anchoring::whole, Spelling::plain, "bound", *meter_);
        bounded = key.empty() ? std::move(one) : intersection(bounded, one, *meter_);
        key += pattern + '&';
    }
    if (key.empty()) return add_word(node, std::string(integers ? kInteger : kNumber));
    const auto [at, is_new] = words_.emplace(key, static_cast<std::uint32_t>(graph_.words.size()));
    if (is_new) graph_.words.push_back(std::move(bounded));
    graph_.nodes[node].words.push_back(at->second);
}

// A limit such as minItems.
std::uint32_t SchemaReader::count(const Place &schema, std::string_view key,
                                  std::uint32_t otherwise) {
    const Json *value = schema.json->find(key);
    if (value == nullptr) return otherwise;
    if (!value->is(Json::Kind::integer) || value->real < 0)
        invalid(schema.child(*value, key), "expected a whole number of 0 or more");
    return static_cast<std::uint32_t>(std::min(value->real, kMaxCount));
}

std::uint32_t SchemaReader::string(const Place &schema) {
    SchemaGraph::String body;
    body.min = count(schema, "minLength", 0);
    body.max = count(schema, "maxLength", kUnlimited);
    const Json *pattern = schema.json->find("pattern");
    const bool any = body.min == 0 && body.max == kUnlimited && pattern == nullptr;
    if (any && any_string_ != kNone) return any_string_;
    if (pattern == nullptr) {
        body.repeated = true;
        body.content =
            compile_regex(kCharacter, Anchoring::whole, Spelling::plain, "JSON", *meter_);
    } else {
        const Place place = expect(schema, "pattern", Json::Kind::string);
        body.content = compile_regex(pattern->text, Anchoring::search, Spelling::json,
                                     cat(place.document->what, "#", place.pointer), *meter_);
        if (body.min > body.max) {
            body.content = {};
        } else if (body.min > 0 || body.max != kUnlimited) {
            std::string length = cat("[^]{", body.min, ",");
            if (body.max != kUnlimited) length += std::to_string(body.max);
            body.content = intersection(
                body.content,
                compile_regex(length + '}', Anchoring::whole, Spelling::json,
                              cat(schema.document->what, "#", schema.pointer), *meter_),
                *meter_);
        }
    }
    graph_.strings.push_back(std::move(body));
    const auto index = static_cast<std::uint32_t>(graph_.strings.size() - 1);
    if (any) any_string_ = index;
    return index;
}

std::uint32_t SchemaReader::array(const Place &schema) {
    SchemaGraph::Array body;
    body.min = count(schema, "minItems", 0);
    body.max = count(schema, "maxItems", kUnlimited);
    if (schema.json->find("prefixItems") != nullptr) {
        const Place list = expect(schema, "prefixItems", Json::Kind::array);
        for (std::size_t i = 0; i < list.json->items.size(); ++i)
            body.prefix.push_back(node_of(list.child(list.json->items[i], std::to_string(i))));
    }
    const Json *items = schema.json->find("items");
    body.rest = items == nullptr ? any() : node_of(schema.child(*items, "items"));
    graph_.arrays.push_back(std::move(body));
    return static_cast<std::uint32_t>(graph_.arrays.size() - 1);
}

std::uint32_t SchemaReader::object(const Place &schema) {
    SchemaGraph::Object body;
    std::map<std::string_view, std::size_t> places;
    const bool named = schema.json->find("properties") != nullptr;
    if (named) {
        const Place list = expect(schema, "properties", Json::Kind::object);
        for (const auto &[name, property] : list.json->members) {
            places.emplace(name, body.properties.size());
            body.properties.push_back({name, node_of(list.child(property, name))});
        }
    }
    const Json *additional = schema.json->find("additionalProperties");
    const std::uint32_t others =
        additional == nullptr ? any() : node_of(schema.child(*additional, "additionalProperties"));
    if (additional != nullptr || !named) body.additional = others;
    if (schema.json->find("required") != nullptr) {
        const Place list = expect(schema, "required", Json::Kind::array);
        for (const Json &name : list.json->items) {
            if (!name.is(Json::Kind::string)) invalid(list, "expected names of properties");
            const auto [at, is_new] = places.emplace(name.text, body.properties.size());
            if (is_new) body.properties.push_back({name.text, others});
            body.properties[at->second].required = true;
        }
    }
    graph_.objects.push_back(std::move(body));
    return static_cast<std::uint32_t>(graph_.objects.size() - 1);
}

SchemaReader::Place SchemaReader::resolve(const Place &reference) {
    std::string_view pointer = reference.json->text;
    if (!pointer.starts_with('#')) unsupported(reference, "a reference to another document is ");
    pointer.remove_prefix(1);
    if (!pointer.empty() && pointer[0] != '/') unsupported(reference, "a reference by name is ");
    Place place{reference.document->root, false, "", reference.document};
    while (!pointer.empty()) {
        const std::string step = take_step(pointer);
        const Json *inner = step_into(*place.json, step);
        if (inner == nullptr) invalid(reference, "there is no \"", step, "\" in #", place.pointer);
        place = place.child(*inner, step);
    }
    return place;
}

}  // namespace kimi
