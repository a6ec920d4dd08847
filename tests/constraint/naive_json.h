// The rules of constrained JSON, written down once more: a text is read into a tree that keeps how
// things were spelled, and the tree is compared with a schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kimi::test {

struct Spelled {
    Json::Kind kind = Json::Kind::null;  // numbers are real
    std::string raw;                     // of a number or a string, here without quotes
    std::string text;                    // of a string
    bool canonical = true;               // of a string: as json.dumps() writes it
    bool boolean = false;
    std::vector<Spelled> items;  // also the values of an object
    std::vector<Spelled> names;  // of an object
};

// Nothing where the text is not JSON on one line with at most one space behind , and :.
std::optional<Spelled> read_spelled(std::string_view text);

// Whether a schema allows a value. Properties in any order; or, if asked for, only in that of the
// schema. Knows what the library supports, but not the limits of nesting.
class NaiveSchema {
  public:
    explicit NaiveSchema(const Json &root) : root_(root) {}
    bool allows(const Spelled &value, bool ordered) const {
        return allows(root_, value, ordered, {});
    }

  private:
    using Path = std::vector<const Json *>;  // schemas that led to one, for the same value
    bool allows(const Json &schema, const Spelled &value, bool ordered, Path path) const;
    bool allows_object(const Json &schema, const Spelled &value, bool ordered) const;

    const Json &root_;
};

}  // namespace kimi::test
