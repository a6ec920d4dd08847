// The program kimi-plan, apart from its output.
#pragma once

#include <span>
#include <string>

namespace kimi::plan {

// What it prints for these arguments. Throws any status.
std::string run(std::span<const char *const> args);

}  // namespace kimi::plan
