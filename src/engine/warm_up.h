// The first passes of an engine, of every size that its devices may keep as graphs: they capture
// them then.
#pragma once

#include "engine/runner.h"

namespace kimi {

// Before any page is in use: the passes write the first one.
void warm_up(Runner &runner);

}  // namespace kimi
