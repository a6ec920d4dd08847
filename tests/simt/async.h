// Copies that complete later: cp.async, mbarriers and bulk copies. They move the data at once; what
// is checked is that nobody looks before the wait.
#pragma once

#include <cstdint>

#include "tests/simt/access.h"
#include "tests/simt/block.h"

namespace kimi::simt::host {

void check_global(const Thread &thread, const GlobalPlace &place, std::uint64_t bytes,
                  unsigned alignment, const char *what, Site site);
void check_shared(const Thread &thread, const SharedPlace &place, std::uint64_t bytes,
                  unsigned alignment, const char *what, Site site);
// Marks a range as read, which must be written.
void mark_global_read(const Thread &thread, const GlobalPlace &place, std::uint64_t bytes,
                      Site site);

void async_copy(const SharedPlace &to, const GlobalPlace &from, unsigned bytes, unsigned valid,
                Site site);
void async_commit();
void async_wait(std::uint32_t pending);

void bulk_copy(const SharedPlace &to, const GlobalPlace &from, std::uint32_t bytes,
               const SharedPlace &barrier, Site site);
void mbarrier_init(const SharedPlace &barrier, std::uint32_t arrivals, Site site);
void mbarrier_arrive(const SharedPlace &barrier, std::uint32_t expect_bytes, Site site);
bool mbarrier_test(const SharedPlace &barrier, std::uint32_t parity, Site site);
void mbarrier_wait(const SharedPlace &barrier, std::uint32_t parity, Site site);

}  // namespace kimi::simt::host
