// The text that declares tools to K2.5 and K2.6.
#pragma once

#include <string>

#include "base/json.h"

namespace kimi {

// tools: an array of {"type": "function", "function": {...}}. Gives TypeScript-like declarations,
// byte for byte those of the encoder in Moonshot's tokenizer; compact JSON, as that falls back to,
// where a schema cannot be expressed or no tool is a function. Keys are sorted in both.
std::string declare_tools(const Json &tools);

}  // namespace kimi
