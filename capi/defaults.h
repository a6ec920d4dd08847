// Defaults of the option structs.
#pragma once

#include "kimi/kimi.h"

namespace kimi::capi {

kimi_engine_options default_engine_options();
kimi_session_options default_session_options();

}  // namespace kimi::capi
