// JSON to FlatBuffers through the schema's own description.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kimi {

// Builds the root table of a binary schema (.bfbs) from JSON. Throws KIMI_INVALID_ARGUMENT with
// `where` and the path of a field that is unknown, has the wrong type or is out of its type's
// range.
std::vector<std::uint8_t> json_to_flatbuffer(const Json &json, const std::uint8_t *schema,
                                             std::string_view where);

}  // namespace kimi
