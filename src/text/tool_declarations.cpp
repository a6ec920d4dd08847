#include "text/tool_declarations.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kimi {
namespace {

using Kind = Json::Kind;

// Thrown where Moonshot's encoder, written in Python, throws.
struct Inexpressible {};

const Json &expect(Kind kind, const Json &value) {
    if (!value.is(kind)) throw Inexpressible{};
    return value;
}

// Python's truth of a value; absent is false.
bool truthy(const Json *value) {
    if (value == nullptr) return false;
    switch (value->kind) {
        case Kind::null:
            return false;
        case Kind::boolean:
            return value->boolean;
        case Kind::integer:
        case Kind::real:
            return value->real != 0;
        case Kind::string:
            return !value->text.empty();
        case Kind::array:
            return !value->items.empty();
        case Kind::object:
            return !value->members.empty();
    }
    return false;
}

// Python's str() of a scalar; only scalars are meant to stand where it is used.
std::string python_str(const Json &value) {
    switch (value.kind) {
        case Kind::null:
            return "None";
        case Kind::boolean:
            return value.boolean ? "True" : "False";
        case Kind::string:
            return value.text;
        case Kind::integer:
        case Kind::real:
            return dump_json(value);
        case Kind::array:
        case Kind::object:
            throw Inexpressible{};
    }
    return {};
}

template <typename Range, typename F>
std::string join(const Range &range, std::string_view separator, F &&print) {
    std::string out;
    bool first = true;
    for (const auto &item : range) {
        if (!first) out += separator;
        first = false;
        out += print(item);
    }
    return out;
}

std::string comment(const Json &description, const std::string &indent) {
    std::string_view rest = expect(Kind::string, description).text;
    std::string out;
    for (;;) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        if (!line.empty()) out += cat(indent, "// ", line);
        out += '\n';
        if (line.size() == rest.size()) return out;
        rest.remove_prefix(line.size() + 1);
    }
}

// A parsed schema. Descriptions are looked at only where they are printed.
struct Type {
    enum class Form { name, array, any_of, object };
    struct Field;

    Form form = Form::name;
    std::string name;  // the whole text of a name
    const Json *description = nullptr;
    std::string constraints;    // "key: value, ..."
    std::vector<Type> parts;    // of an array its item, of any_of its alternatives, of an
                                // object the type of other fields, if any are declared
    std::vector<Field> fields;  // of an object, in the order of their names
};

struct Type::Field {
    std::string name;
    bool optional;
    const Json *default_value;
    Type type;
};

std::string print_type(const Type &type, const std::string &indent);

// The comment lines above a type.
std::string print_comments(const Type &type, const std::string &indent) {
    std::string out;
    if (truthy(type.description)) out += comment(*type.description, indent);
    if (!type.constraints.empty()) out += cat(indent, "// ", type.constraints, "\n");
    return out;
}

std::string print_field(const Type::Field &field, const std::string &indent) {
    std::string out = print_comments(field.type, indent);
    if (const Json *value = field.default_value; value != nullptr && !value->is(Kind::null))
        out += cat(indent, "// Default: ",
                   value->is(Kind::boolean) ? python_str(*value) : dump_json(*value), "\n");
    return cat(out, indent, field.name, field.optional ? "?: " : ": ",
               print_type(field.type, indent));
}

std::string print_object(const Type &type, const std::string &indent) {
    const std::string inner = indent + "  ";
    std::vector<std::string> fields;
    for (const bool optional : {false, true})
        for (const Type::Field &field : type.fields)
            if (field.optional == optional) fields.push_back(print_field(field, inner));
    for (const Type &other : type.parts)
        fields.push_back(cat(inner, "[k: string]: ", print_type(other, inner)));
    if (fields.empty()) return "{}";
    return cat("{\n", join(fields, ",\n", std::identity()), "\n", indent, "}");
}

std::string print_array(const Type &item, const std::string &indent) {
    const std::string inner = indent + "  ";
    const std::string comments = print_comments(item, inner);
    if (comments.empty()) return cat("Array<", print_type(item, indent), ">");
    return cat("Array<\n", comments, inner, print_type(item, inner), "\n", indent, ">");
}

std::string print_type(const Type &type, const std::string &indent) {
    switch (type.form) {
        case Type::Form::name:
            return type.name;
        case Type::Form::array:
            return print_array(type.parts[0], indent);
        case Type::Form::any_of:
            return join(type.parts, " | ",
                        [&](const Type &part) { return print_type(part, indent); });
        case Type::Form::object:
            return print_object(type, indent);
    }
    return {};
}

// Parses the schemas of one function. Definitions are known from the place on where they stand.
class SchemaParser {
  public:
    struct Definition {
        std::string name;
        const Json *schema;
    };
    std::vector<Definition> definitions;
    bool refers_to_root = false;

    Type parse(const Json &schema) {
        if (schema.is(Kind::boolean)) return named(schema.boolean ? "any" : "null");
        expect(Kind::object, schema);
        Type type;
        if (const Json *ref = schema.find("$ref")) {
            type = named(reference(expect(Kind::string, *ref).text));
        } else if (const Json *any_of = schema.find("anyOf")) {
            type.form = Type::Form::any_of;
            for (const Json &part : expect(Kind::array, *any_of).items)
                type.parts.push_back(parse(part));
        } else if (const Json *values = schema.find("enum")) {
            type = named(parse_enum(*values, schema.find("type")));
        } else if (const Json *name = schema.find("type")) {
            type = parse_typed(*name, schema);
        } else {
            if (!schema.members.empty()) throw Inexpressible{};
            type = named("any");
        }
        type.description = schema.find("description");
        return type;
    }

    Type parse_object(const Json &schema) {
        Type type{.form = Type::Form::object};
        if (const Json *defs = schema.find("$defs"); truthy(defs))
            for (const auto &[name, definition] : expect(Kind::object, *defs).members)
                define(name, definition);
        if (const Json *other = schema.find("additionalProperties");
            other != nullptr && !other->is(Kind::null))
            type.parts.push_back(other->is(Kind::boolean) ? named(other->boolean ? "any" : "never")
                                                          : parse(*other));
        const Json *properties = schema.find("properties");
        if (properties == nullptr) return type;
        const std::set<std::string_view> required = required_names(schema.find("required"));
        for (const auto &[name, property] : expect(Kind::object, *properties).members)
            type.fields.push_back(
                {name, !required.contains(name), property.find("default"), parse(property)});
        return type;
    }

  private:
    static Type named(std::string name) { return {.name = std::move(name)}; }

    void define(const std::string &name, const Json &schema) {
        const auto [at, is_new] = places_.emplace(name, definitions.size());
        if (is_new) definitions.push_back({name, nullptr});
        definitions[at->second].schema = &schema;
    }

    // The name that a $ref prints.
    std::string reference(std::string_view ref) {
        if (ref == "#") {
            refers_to_root = true;
            return "parameters";
        }
        if (!ref.starts_with("#/$defs/")) throw Inexpressible{};
        const std::string name(ref.substr(ref.rfind('/') + 1));
        const auto at = places_.find(name);
        if (at == places_.end()) throw Inexpressible{};
        return name;
    }

    Type parse_typed(const Json &name, const Json &schema) {
        if (name.is(Kind::array)) return named(join(name.items, " | ", union_member));
        const std::string &text = expect(Kind::string, name).text;
        if (text == "object") return parse_object(schema);
        Type type;
        if (text == "array") {
            const Json *items = schema.find("items");
            type.form = Type::Form::array;
            type.parts.push_back(truthy(items) ? parse(*items) : named("any"));
            type.constraints = constraints(schema, {"maxItems", "minItems"});
            return type;
        }
        type.name = text == "integer" ? "number" : text;
        if (text == "string")
            type.constraints = constraints(schema, {"maxLength", "minLength", "pattern"});
        if (type.name == "number") type.constraints = constraints(schema, {"maximum", "minimum"});
        return type;
    }

    static std::string_view union_member(const Json &type) {
        static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
            {"string", "string"},   {"number", "number"}, {"integer", "number"},
            {"boolean", "boolean"}, {"null", "null"},     {"object", "{}"},
            {"array", "Array<any>"}};
        for (const auto &[name, printed] : kNames)
            if (type.is(Kind::string) && type.text == name) return printed;
        throw Inexpressible{};
    }

    static std::string constraints(const Json &schema,
                                   std::initializer_list<std::string_view> keys) {
        std::string out;
        for (const std::string_view key : keys) {
            const Json *value = schema.find(key);
            if (value != nullptr)
                out += cat(out.empty() ? "" : ", ", key, ": ", python_str(*value));
        }
        return out;
    }

    static std::set<std::string_view> required_names(const Json *required) {
        std::set<std::string_view> names;
        if (required == nullptr) return names;
        for (const Json &name : expect(Kind::array, *required).items) {
            if (name.is(Kind::array) || name.is(Kind::object)) throw Inexpressible{};
            if (name.is(Kind::string)) names.insert(name.text);
        }
        return names;
    }

    static std::string parse_enum(const Json &values, const Json *type) {
        if (type != nullptr) check_enum(expect(Kind::array, values).items, *type);
        return join(expect(Kind::array, values).items, " | ", [](const Json &value) {
            return value.is(Kind::string) ? cat("\"", value.text, "\"") : python_str(value);
        });
    }

    // Values must be null or of the declared type; type may be [T], [T, "null"] or ["null", T].
    static void check_enum(const std::vector<Json> &values, const Json &type) {
        if (!type.is(Kind::array)) return check_enum(values, type.text);
        const auto is_null = [](const Json &t) { return t.text == "null"; };
        const std::vector<Json> &types = type.items;
        const bool nullable = types.size() == 2 && std::any_of(types.begin(), types.end(), is_null);
        if (types.size() != 1 && !nullable) throw Inexpressible{};
        check_enum(values, types[nullable && is_null(types[0]) ? 1 : 0].text);
    }
    static void check_enum(const std::vector<Json> &values, std::string_view type) {
        for (const Json &value : values) {
            if (value.is(Kind::null)) continue;
            const bool boolean = value.is(Kind::boolean);  // an int, too, in Python
            const bool integer = value.is(Kind::integer) || boolean;
            if ((type == "string" && !value.is(Kind::string)) || (type == "integer" && !integer) ||
                (type == "number" && !integer && !value.is(Kind::real)) ||
                (type == "boolean" && !boolean))
                throw Inexpressible{};
        }
    }

    std::map<std::string, std::size_t, std::less<>> places_;  // of names in definitions
};

// The block of a type that refers to itself; its fields keep the order of their names.
std::string print_root(const Type &root) {
    if (root.fields.empty()) return "interface parameters {}\n";
    const auto print = [](const Type::Field &field) { return print_field(field, "  "); };
    return cat("interface parameters {\n", join(root.fields, ",\n", print), "\n}\n");
}

std::string print_function(const Json &function) {
    expect(Kind::object, function);
    SchemaParser parser;
    Type root{.form = Type::Form::object};
    if (const Json *parameters = function.find("parameters"); truthy(parameters))
        root = parser.parse_object(expect(Kind::object, *parameters));
    const bool refers_to_root = parser.refers_to_root;
    std::string out;
    if (refers_to_root) out += print_root(root);
    // Definitions inside of definitions are not printed.
    const std::vector<SchemaParser::Definition> definitions = parser.definitions;
    for (const auto &[name, schema] : definitions) {
        const Type type = parser.parse(expect(Kind::object, *schema));
        if (truthy(type.description)) out += comment(*type.description, "");
        out += cat("interface ", name, " ", print_type(type, ""), "\n");
    }
    if (const Json *description = function.find("description"); truthy(description))
        out += comment(*description, "");
    const Json *name = function.find("name");
    return cat(out, "type ", name == nullptr ? "function" : python_str(*name),
               " = (_: ", refers_to_root ? "parameters" : print_type(root, ""), ") => any;");
}

// Empty where no tool is a function.
std::string print_tools(const Json &tools) {
    std::string functions;
    for (const Json &tool : tools.items) {
        const Json *type = expect(Kind::object, tool).find("type");
        const Json *function = tool.find("function");
        if (type != nullptr && type->text == "function" && truthy(function))
            functions += print_function(*function) + "\n";
    }
    if (functions.empty()) return {};
    return cat("# Tools\n\n## functions\nnamespace functions {\n", functions, "}\n");
}

Json sort_keys(Json value) {
    for (Json &item : value.items) item = sort_keys(std::move(item));
    for (auto &[key, member] : value.members) member = sort_keys(std::move(member));
    std::sort(value.members.begin(), value.members.end(),
              [](const Json::Member &a, const Json::Member &b) { return a.first < b.first; });
    return value;
}

}  // namespace

std::string declare_tools(const Json &tools) {
    const Json sorted = sort_keys(tools);
    try {
        std::string text = print_tools(sorted);
        if (!text.empty()) return text;
    } catch (const Inexpressible &) {
    }
    return dump_json(sorted, ",", ":");
}

}  // namespace kimi
