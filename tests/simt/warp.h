// Operations that the lanes of a warp do together.
#pragma once

#include <cstdint>

#include "kernels/simt/types.h"
#include "tests/simt/numeric.h"
#include "tests/simt/site.h"

namespace kimi::simt {
namespace host {

enum class Shuffle : std::uint8_t { kIndex, kUp, kDown, kXor };
std::uint64_t shuffle(Shuffle how, std::uint32_t mask, std::uint64_t value, int b, int width,
                      Site site);
std::uint32_t ballot(std::uint32_t mask, bool predicate, const char *name, Site site);
void warp_barrier(std::uint32_t mask, Site site);

template <typename T>
T shuffle_as(Shuffle how, std::uint32_t mask, T value, int b, int width, Site site) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    return bits<T>(static_cast<Bits>(shuffle(how, mask, bits<Bits>(value), b, width, site)));
}

}  // namespace host

}  // namespace kimi::simt

// ---- CUDA's own names

inline void __syncwarp(unsigned mask = ~0U, kimi::simt::Site site = kimi::simt::Site::here()) {
    kimi::simt::host::warp_barrier(mask, site);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              kimi::simt::Site site = kimi::simt::Site::here()) {
    using kimi::simt::host::Shuffle;
    return kimi::simt::host::shuffle_as(Shuffle::kIndex, mask, value, lane, width, site);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 kimi::simt::Site site = kimi::simt::Site::here()) {
    using kimi::simt::host::Shuffle;
    return kimi::simt::host::shuffle_as(Shuffle::kUp, mask, value, static_cast<int>(delta), width,
                                        site);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   kimi::simt::Site site = kimi::simt::Site::here()) {
    using kimi::simt::host::Shuffle;
    return kimi::simt::host::shuffle_as(Shuffle::kDown, mask, value, static_cast<int>(delta), width,
                                        site);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  kimi::simt::Site site = kimi::simt::Site::here()) {
    using kimi::simt::host::Shuffle;
    return kimi::simt::host::shuffle_as(Shuffle::kXor, mask, value, lane_mask, width, site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              kimi::simt::Site site = kimi::simt::Site::here()) {
    return kimi::simt::host::ballot(mask, predicate != 0, "__ballot_sync", site);
}
inline int __any_sync(unsigned mask, int predicate,
                      kimi::simt::Site site = kimi::simt::Site::here()) {
    return kimi::simt::host::ballot(mask, predicate != 0, "__any_sync", site) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      kimi::simt::Site site = kimi::simt::Site::here()) {
    return kimi::simt::host::ballot(mask, predicate == 0, "__all_sync", site) == 0;
}
