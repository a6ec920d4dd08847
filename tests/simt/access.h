// Checked accesses of the running thread to global and shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/simt/memory.h"
#include "tests/simt/site.h"

namespace kimi::simt::host {

// A place in shared memory and the array around it, in bytes.
struct SharedPlace {
    std::uint32_t at = 0, begin = 0, end = 0;
};
// A place in global memory.
struct GlobalPlace {
    std::uintptr_t address = 0;
    const Memory *memory = nullptr;
};

// Volatile stands for everything flags are made of: volatile, acquire and release. Plain accesses
// come first.
enum class Touch : std::uint8_t {
    kLoad,
    kReadOnlyLoad,
    kStore,
    kVolatileLoad,
    kVolatileStore,
    kAtomic
};

// Checks and counts one access of 1, 2, 4, 8 or 16 bytes and returns where it lies.
std::byte *touch(const GlobalPlace &place, unsigned bytes, Touch how, Site site);
std::byte *touch(const SharedPlace &place, unsigned bytes, Touch how, Site site);

// After an atomic or volatile access: lets others run if the thread seems to poll, and says whether
// it has to look again.
bool poll(const void *address, std::uint64_t value, Site site);
// Something changed that others may be polling.
void changed();

}  // namespace kimi::simt::host
