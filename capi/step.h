// Results of steps as the caller sees them.
#pragma once

#include <cstddef>

#include "engine/session.h"
#include "kimi/kimi.h"

namespace kimi::capi {

// What the session's last step did, as far as a caller's struct of `size` bytes holds it.
void write_step(const Session &session, void *out, std::size_t size);
// Reports how the session's last step ended.
kimi_status report_step(const Session &session, kimi_error *error) noexcept;

}  // namespace kimi::capi
