// Random schemas, and texts that mostly fit them.
#pragma once

#include <string>

#include "constraint/fixtures.h"

namespace kimi::test {

class RandomSchema {
  public:
    explicit RandomSchema(Random &random) : random_(random) {}

    // A schema with two definitions that may refer to anything.
    std::string make() {
        return cat("{\"$defs\": {\"x\": ", schema(2), ", \"y\": ", schema(1), "}, ",
                   schema(3).substr(1));
    }
    // A value, which mostly is one the schema allows. Members in random order.
    std::string value(const Json &root, const Json &schema, int depth = 0);

  private:
    bool chance(std::size_t percent) { return below(random_, 100) < percent; }
    std::string number() { return std::to_string(static_cast<int>(below(random_, 41)) - 20); }
    std::string name();
    std::string literal(int depth);
    std::string list(std::size_t n, int depth);
    std::string schema(int depth);
    std::string typed(int depth);
    std::string object_keywords(int depth);

    std::string any_string();
    std::string array_value(const Json &root, const Json &schema, int depth);
    std::string object_value(const Json &root, const Json &schema, int depth);
    std::string space() { return chance(50) ? " " : ""; }

    Random &random_;
};

// Changes a few bytes.
std::string damaged(Random &random, std::string text);

}  // namespace kimi::test
