#include "deploy/json_to_flatbuffer.h"

#include "deploy/flatbuffers_config.h"

#include <flatbuffers/flatbuffer_builder.h>
#include <flatbuffers/reflection_generated.h>

#include <charconv>
#include <limits>
#include <string>

namespace kimi {
namespace {

using reflection::BaseType;

class Builder {
  public:
    Builder(const reflection::Schema &schema, std::string_view where)
        : schema_(schema), where_(where) {
        // A field that is present in the JSON is present in the buffer.
        builder_.ForceDefaults(true);
    }

    std::vector<std::uint8_t> build(const Json &json) {
        const auto root = table(json, *schema_.root_table(), "");
        builder_.Finish(flatbuffers::Offset<void>(root), schema_.file_ident()->c_str());
        return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
    }

  private:
    // A field whose value is known: strings and tables are written before the table that refers to
    // them.
    struct Value {
        const reflection::Field *field;
        const Json *json;
        std::string name;
        flatbuffers::uoffset_t offset = 0;
    };

    template <typename... Parts>
    [[noreturn]] void bad(std::string_view name, const Parts &...parts) const {
        fail(KIMI_INVALID_ARGUMENT, where_, ": field ", name, ": ", parts...);
    }

    flatbuffers::uoffset_t table(const Json &json, const reflection::Object &type,
                                 const std::string &name) {
        if (!json.is(Json::Kind::object))
            fail(KIMI_INVALID_ARGUMENT, where_, ": ",
                 name.empty() ? std::string("the deployment") : "field " + name,
                 " must be an object, is ", kind_name(json.kind));
        std::vector<Value> values;
        for (const auto &[key, value] : json.members) {
            std::string path = name.empty() ? key : cat(name, '.', key);
            const reflection::Field *field = type.fields()->LookupByKey(key.c_str());
            if (field == nullptr || field->deprecated() || key.find('\0') != std::string::npos)
                bad(path, "is unknown");
            if (value.is(Json::Kind::null)) continue;
            values.push_back({field, &value, std::move(path)});
        }
        for (Value &value : values) value.offset = child(value);
        const auto start = builder_.StartTable();
        for (const Value &value : values) add(value);
        const auto end = builder_.EndTable(start);
        check_required(type, end, name);
        return end;
    }

    flatbuffers::uoffset_t child(const Value &value) {
        switch (value.field->type()->base_type()) {
            case BaseType::String:
                if (!value.json->is(Json::Kind::string)) wrong_type(value, "a string");
                return builder_.CreateString(value.json->text).o;
            case BaseType::Obj: {
                const auto index =
                    static_cast<flatbuffers::uoffset_t>(value.field->type()->index());
                return table(*value.json, *schema_.objects()->Get(index), value.name);
            }
            case BaseType::Vector:
                return builder_.CreateVector(integers(value)).o;
            default:
                return 0;
        }
    }

    // The only vectors that the schema has.
    std::vector<std::uint32_t> integers(const Value &value) const {
        KIMI_CHECK(value.field->type()->element() == BaseType::UInt);
        if (!value.json->is(Json::Kind::array)) wrong_type(value, "an array");
        std::vector<std::uint32_t> out;
        for (const Json &item : value.json->items)
            out.push_back(integer<std::uint32_t>({value.field, &item, value.name}));
        return out;
    }

    void add(const Value &value) {
        const flatbuffers::voffset_t at = value.field->offset();
        switch (value.field->type()->base_type()) {
            case BaseType::String:
            case BaseType::Obj:
            case BaseType::Vector:
                builder_.AddOffset(at, flatbuffers::Offset<void>(value.offset));
                break;
            case BaseType::Bool:
                if (!value.json->is(Json::Kind::boolean)) wrong_type(value, "true or false");
                builder_.AddElement<std::uint8_t>(at, value.json->boolean, 0);
                break;
            case BaseType::UByte:
                builder_.AddElement(at, integer<std::uint8_t>(value), {});
                break;
            case BaseType::UInt:
                builder_.AddElement(at, integer<std::uint32_t>(value), {});
                break;
            case BaseType::ULong:
                builder_.AddElement(at, integer<std::uint64_t>(value), {});
                break;
            case BaseType::Float:
                if (!value.json->is(Json::Kind::real) && !value.json->is(Json::Kind::integer))
                    wrong_type(value, "a number");
                builder_.AddElement(at, static_cast<float>(value.json->real), 0.0f);
                break;
            default:
                KIMI_CHECK(!"a type that the schema does not use");
        }
    }

    [[noreturn]] void wrong_type(const Value &value, std::string_view allowed) const {
        bad(value.name, "is ", dump_json(*value.json), ", must be ", allowed);
    }

    template <typename T>
    T integer(const Value &value) const {
        const std::int32_t enum_index = value.field->type()->index();
        if (enum_index >= 0)
            return static_cast<T>(
                enumerator(value, *schema_.enums()->Get(static_cast<unsigned>(enum_index))));
        const std::string &digits = value.json->text;
        T out{};
        const char *end = digits.data() + digits.size();
        const bool fits = value.json->is(Json::Kind::integer) &&
                          std::from_chars(digits.data(), end, out).ptr == end;
        if (!fits || std::from_chars(digits.data(), end, out).ec != std::errc())
            wrong_type(value, cat("an integer from 0 to ", std::numeric_limits<T>::max()));
        return out;
    }

    std::int64_t enumerator(const Value &value, const reflection::Enum &type) const {
        std::string names;
        for (const reflection::EnumVal *candidate : *type.values()) {
            if (value.json->is(Json::Kind::string) && value.json->text == candidate->name()->str())
                return candidate->value();
            names += cat(names.empty() ? "" : ", ", '"', candidate->name()->str(), '"');
        }
        wrong_type(value, "one of " + names);
    }

    void check_required(const reflection::Object &type, flatbuffers::uoffset_t table_end,
                        const std::string &name) {
        const auto *table = reinterpret_cast<const flatbuffers::Table *>(
            builder_.GetCurrentBufferPointer() + builder_.GetSize() - table_end);
        for (const reflection::Field *field : *type.fields())
            if (field->required() && !table->CheckField(field->offset()))
                bad(cat(name, name.empty() ? "" : ".", field->name()->str()), "is missing");
    }

    const reflection::Schema &schema_;
    std::string_view where_;
    flatbuffers::FlatBufferBuilder builder_;
};

}  // namespace

std::vector<std::uint8_t> json_to_flatbuffer(const Json &json, const std::uint8_t *schema,
                                             std::string_view where) {
    return Builder(*reflection::GetSchema(schema), where).build(json);
}

}  // namespace kimi
