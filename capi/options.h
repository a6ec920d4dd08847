// Defaults and checks of the option structs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/host_memory.h"
#include "engine/session.h"
#include "kimi/kimi.h"

namespace kimi::capi {

kimi_engine_options default_engine_options();
kimi_session_options default_session_options();

HostHeap read_heap(const kimi_engine_options &options);

// NULL gives the defaults. Throws KIMI_INVALID_ARGUMENT with the member.
SessionOptions read_session_options(const kimi_session_options *options);

// Of a kind that is not KIMI_CONSTRAINT_NONE.
ConstraintKind constraint_kind(std::uint32_t kind);
std::vector<LogitBias> read_biases(std::span<const kimi_logit_bias> in, std::uint32_t vocab);
std::vector<std::string> read_stop_strings(std::span<const char *const> in);

}  // namespace kimi::capi
