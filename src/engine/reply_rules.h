// What a reply must keep, beside the options of its session.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "constraint/reply_constraint.h"

namespace kimi {

struct LogitBias {
    std::int32_t token;
    float bias;  // added to the token's logit

    bool operator==(const LogitBias &) const = default;
};

struct ReplyRules {
    std::shared_ptr<const ReplyConstraint> constraint;  // nullptr: none
    std::vector<LogitBias> biases;
    std::vector<std::string> stop_strings;
    std::vector<std::string> tools;  // names of the functions that the conversation declares
};

}  // namespace kimi
