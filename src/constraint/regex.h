// Regular expressions as finite automata over bytes.
#pragma once

#include <string_view>

#include "constraint/char_set.h"
#include "constraint/fragment.h"
#include "constraint/regex_parser.h"

namespace kimi {

// The dialect is parse_regex()'s. Throws what that throws, and KIMI_TOO_LONG by the meter.
Fragment compile_regex(std::string_view pattern, Anchoring anchoring, Spelling spelling,
                       std::string_view what, WorkMeter &meter);

}  // namespace kimi
