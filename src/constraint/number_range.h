// Decimal numbers within a bound, as regular expressions.
#pragma once

#include <string>

#include "base/json.h"

namespace kimi {

enum class Bound { at_least, more_than, at_most, less_than };

// Matches the numbers that keep the bound, written without exponent, and only integers without
// fraction where asked for. A bound of 0 or more excludes "-0". `limit` is a JSON number.
std::string number_pattern(Bound bound, const Json &limit, bool integers);

}  // namespace kimi
