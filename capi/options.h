// Defaults and checks of the option structs.
#pragma once

#include "engine/session.h"
#include "kimi/kimi.h"

namespace kimi::capi {

kimi_engine_options default_engine_options();
kimi_session_options default_session_options();

// NULL gives the defaults. Throws KIMI_INVALID_ARGUMENT with the member.
SessionOptions read_session_options(const kimi_session_options *options);

}  // namespace kimi::capi
