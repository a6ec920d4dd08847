// JSON schemas as graphs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "constraint/schema_graph.h"

namespace kimi {

// Reads schemas into one graph. The supported part of JSON Schema 2020-12:
//   true, false; type, one or several; enum, const;
//   properties, required, additionalProperties (false if it is missing beside properties);
//   items, prefixItems, minItems, maxItems; minLength, maxLength (in characters);
//   pattern (the dialect of parse_regex(), searched for);
//   minimum, maximum, exclusiveMinimum, exclusiveMaximum (such numbers have no exponent);
//   anyOf; oneOf, read as anyOf; allOf of one schema; $ref to a place in the document, $defs.
// Without type, the types that the other keywords are about are meant. enum, const, anyOf, oneOf,
// allOf and $ref stand alone, except that type may limit the first two. title, description,
// default, examples, format, x-... and other annotations are ignored. Everything else is
// KIMI_UNSUPPORTED with the document's name and a JSON pointer; malformed schemas are
// KIMI_INVALID_ARGUMENT.
class SchemaReader {
  public:
    explicit SchemaReader(WorkMeter &meter) : meter_(&meter) {}

    // The node of a schema, which must outlive the reader; `what` names it in errors.
    std::uint32_t read(const Json &schema, std::string what);
    // All that was read, with depths.
    SchemaGraph take() {
        measure_depth(graph_, *meter_);
        return std::move(graph_);
    }

  private:
    struct Document {
        const Json *root;
        std::string what;
    };
    // A schema; or a value, as the schema of itself.
    struct Place {
        const Json *json;
        bool is_value;
        std::string pointer;
        std::shared_ptr<const Document> document;

        Place child(const Json &json, std::string_view step) const;
    };
    using Types = unsigned;

    template <typename... Parts>
    [[noreturn]] static void invalid(const Place &place, const Parts &...reason);
    template <typename... Parts>
    [[noreturn]] static void unsupported(const Place &place, const Parts &...reason);
    static Place expect(const Place &parent, std::string_view key, Json::Kind kind);
    static std::uint32_t count(const Place &schema, std::string_view key, std::uint32_t otherwise);
    static Place resolve(const Place &reference);

    std::uint32_t any();  // all JSON values
    std::uint32_t node_of(const Place &place);
    void fill(std::uint32_t node, const Place &place);
    void check_keywords(const Place &schema);
    static Types types_of(const Place &schema);
    void add_alternatives(std::uint32_t node, const Place &list);
    void add_values(std::uint32_t node, const std::vector<Place> &values, Types types);
    void add_typed(std::uint32_t node, const Place &schema, Types types);
    void add_word(std::uint32_t node, const std::string &pattern);
    void add_number(std::uint32_t node, const Place &schema, bool integers);
    std::uint32_t string(const Place &schema);
    std::uint32_t array(const Place &schema);
    std::uint32_t object(const Place &schema);

    WorkMeter *meter_;
    SchemaGraph graph_;
    std::map<std::pair<const Json *, bool>, std::uint32_t> nodes_;
    std::vector<std::pair<std::uint32_t, Place>> todo_;
    std::map<std::string, std::uint32_t> words_;  // by expressions
    std::uint32_t any_ = SchemaGraph::kNone, any_string_ = SchemaGraph::kNone;
};

}  // namespace kimi
