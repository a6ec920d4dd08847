// The text that declares tools to K2.5 and K2.6.
#pragma once

#include <string>

#include "base/json.h"

namespace kimi {

// tools: an array of {"type": "function", "function": {...}}. Gives TypeScript-like declarations,
// byte for byte those of the encoder that comes with Moonshot's tokenizer, or compact JSON where
// that falls back to it: a schema cannot be expressed, or no tool is a function. Keys are sorted in
// both. Malformed schemas (a type that is a number, an anyOf that is a string) always become JSON.
std::string declare_tools(const Json &tools);

}  // namespace kimi
