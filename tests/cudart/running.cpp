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
    if (is_written(from, bytes)) return;
    for (std::size_t i = 0; i < bytes; ++i)
        if (!is_written(from + i, 1)) forget(to + i, 1);
}

bool Running::is_written(const Pointer &p, std::size_t bytes) {
    if (p.memory == nullptr) return true;
    const std::uint8_t *state = p.memory->state.get() + p.offset();
    return std::find(state, state + bytes, 0) == state + bytes;
}

void Running::forget(const Pointer &p, std::size_t bytes) {
    std::memset(p.at, 0xff, bytes);
    if (p.memory != nullptr && !p.memory->of_host) p.memory->mark_written(p.offset(), bytes, false);
}

}  // namespace kimi::cudart
