// Results of steps as the caller sees them.
#pragma once

#include <cstddef>

#include "engine/session.h"
#include "kimi/kimi.h"

namespace kimi::capi {

// What the session's last step did, as far as a caller's struct of `size` bytes holds it.
void write_step(const Session &session, void *out, std::size_t size);
// Throws the error of the session's last step, if it has one.
void check_step(const Session &session);

}  // namespace kimi::capi
