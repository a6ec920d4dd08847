#include "tests/cudart/running.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace kimi::cudart {

void Running::check(const Pointer &p, std::size_t bytes, bool write) {
    if (p.memory == nullptr) return;
    const auto &m = *p.memory;
    const char *what = write ? "write" : "read";
    if (!m.live) fail(KIMI_INTERNAL, what, " of released memory, ", m.name);
    if (!p.holds(bytes)) {
        fail(KIMI_INTERNAL, what, " of ", bytes, " bytes at byte ", p.offset(), " of ", m.name,
             ", which has ", m.bytes);
    }
    if (!p.anywhere && (m.visible_to >> device_ & 1U) == 0) {
        fail(KIMI_INTERNAL, what, " of ", m.name, ", which device ", device_, " has no access to");
    }
    if (!m.uses) return;
    if (const auto other = simt::host::use(m.first_use(), p.offset(), bytes, *this, write)) {
        fail(KIMI_INTERNAL, what, " of ", bytes, " bytes at byte ", p.offset(), " of ", m.name,
             " while nothing orders ", name_of(other), " before");
    }
}

std::byte *Running::read(const Pointer &from, std::size_t bytes) {
    check(from, bytes, false);
    return from.at;
}

std::byte *Running::write(const Pointer &to, std::size_t bytes) {
    check(to, bytes, true);
    if (to.memory != nullptr) to.memory->mark_written(to.offset(), bytes, true);
    return to.at;
}

void Running::copy(const Pointer &to, const Pointer &from, std::size_t bytes) {
    if (bytes == 0) return;
    std::memmove(write(to, bytes), read(from, bytes), bytes);
    if (from.memory == nullptr) return;
    const std::uint8_t *state = from.memory->state.get() + from.offset();
    if (std::find(state, state + bytes, 0) == state + bytes) return;
    const bool keeps = to.memory != nullptr && !to.memory->of_host;
    for (std::size_t i = 0; i < bytes; ++i) {
        if (state[i] != 0) continue;
        to.at[i] = std::byte{0xff};
        if (keeps) to.memory->mark_written(to.offset() + i, 1, false);
    }
}

void Running::require_written(const Pointer &p, std::size_t bytes) {
    if (p.memory == nullptr) return;
    const std::uint8_t *state = p.memory->state.get() + p.offset();
    const std::uint8_t *missing = std::find(state, state + bytes, 0);
    if (missing == state + bytes) return;
    fail(KIMI_INTERNAL, "read of byte ", p.offset() + static_cast<std::size_t>(missing - state),
         " of ", p.memory->name, ", which nobody wrote");
}

}  // namespace kimi::cudart
