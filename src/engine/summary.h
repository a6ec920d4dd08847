// What was loaded, for the log.
#pragma once

#include "base/log.h"
#include "deploy/deployment.h"
#include "engine/runner.h"

namespace kimi {

void log_summary(const Log &log, const Deployment &deployment, const Runner &runner,
                 std::uint64_t memory_bytes);

}  // namespace kimi
