// Atomics, and the loads and stores that flags are made of.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/simt/numeric.h"
#include "tests/simt/pointer.h"

namespace kimi::simt {
namespace host {

// Virtual time; a loop around it lets others run.
std::uint64_t read_clock(Site site);

template <typename V>
std::uint64_t polled_value(const V &v) {
    std::uint64_t out = 0;
    std::memcpy(&out, &v, sizeof v < sizeof out ? sizeof v : sizeof out);
    return out;
}

// At most 8 bytes are read and written in one piece, because blocks may run on two OS threads.
template <typename V>
V read_at_once(const std::byte *p) {
    if constexpr (sizeof(V) == 4) {
        return bits<V>(
            __atomic_load_n(reinterpret_cast<const std::uint32_t *>(p), __ATOMIC_ACQUIRE));
    } else if constexpr (sizeof(V) == 8) {
        return bits<V>(
            __atomic_load_n(reinterpret_cast<const std::uint64_t *>(p), __ATOMIC_ACQUIRE));
    } else {
        V v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }
}

template <typename V, typename Place>
V load_flag(const Place &place, Site site) {
    static_assert(sizeof(V) >= 2);
    const std::byte *p = touch(place, sizeof(V), Touch::kVolatileLoad, site);
    const V value = read_at_once<V>(p);
    if (!poll(p, polled_value(value), site)) return value;
    return read_at_once<V>(touch(place, sizeof(V), Touch::kVolatileLoad, site));
}

template <typename V, typename Place>
void store_flag(const Place &place, const V &value, Site site) {
    static_assert(sizeof(V) >= 2);
    std::byte *p = touch(place, sizeof(V), Touch::kVolatileStore, site);
    if constexpr (sizeof(V) == 4) {
        __atomic_store_n(reinterpret_cast<std::uint32_t *>(p), bits<std::uint32_t>(value),
                         __ATOMIC_RELEASE);
    } else if constexpr (sizeof(V) == 8) {
        __atomic_store_n(reinterpret_cast<std::uint64_t *>(p), bits<std::uint64_t>(value),
                         __ATOMIC_RELEASE);
    } else {
        std::memcpy(p, &value, sizeof value);
    }
}

// Replaces old by update(old) and returns old.
template <typename T, typename Place, typename Update>
T atomic_update(const Place &place, Site site, Update &&update) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    auto *p = reinterpret_cast<Bits *>(touch(place, sizeof(T), Touch::kAtomic, site));
    Bits old = __atomic_load_n(p, __ATOMIC_ACQUIRE);
    Bits fresh;
    do {
        fresh = bits<Bits>(static_cast<T>(update(bits<T>(old))));
    } while (
        !__atomic_compare_exchange_n(p, &old, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    if (fresh != old) {
        changed();
    } else {
        poll(p, old, site);
    }
    return bits<T>(old);
}

}  // namespace host

#define KIMI_SIMT_FLAG_OPS(suffix)                                  \
    template <typename V, typename T>                               \
    V load_##suffix(const Global<T> &p, Site site = Site::here()) { \
        return host::load_flag<V>(p.place(), site);                 \
    }                                                               \
    template <typename V, typename T>                               \
    V load_##suffix(const Shared<T> &p, Site site = Site::here()) { \
        return host::load_flag<V>(p.place(), site);                 \
    }
#define KIMI_SIMT_FLAG_STORES(suffix)                                               \
    template <typename T, typename V>                                               \
    void store_##suffix(const Global<T> &p, const V &v, Site site = Site::here()) { \
        host::store_flag(p.place(), v, site);                                       \
    }                                                                               \
    template <typename T, typename V>                                               \
    void store_##suffix(const Shared<T> &p, const V &v, Site site = Site::here()) { \
        host::store_flag(p.place(), v, site);                                       \
    }

KIMI_SIMT_FLAG_OPS(volatile)
KIMI_SIMT_FLAG_OPS(acquire)
KIMI_SIMT_FLAG_OPS(acquire_system)
KIMI_SIMT_FLAG_STORES(volatile)
KIMI_SIMT_FLAG_STORES(release)
KIMI_SIMT_FLAG_STORES(release_system)
#undef KIMI_SIMT_FLAG_OPS
#undef KIMI_SIMT_FLAG_STORES

}  // namespace kimi::simt

// ---- CUDA's own names, in the scopes that exist

#define KIMI_SIMT_ATOMIC(name, expression)                                            \
    template <template <typename> typename Pointer, typename T>                       \
    T name(const Pointer<T> &p, std::type_identity_t<T> v,                            \
           kimi::simt::Site site = kimi::simt::Site::here()) {                        \
        return kimi::simt::host::atomic_update<T>(p.place(), site,                    \
                                                  [v](T old) { return expression; }); \
    }
#define KIMI_SIMT_CAS(name)                                                                  \
    template <template <typename> typename Pointer, typename T>                              \
    T name(const Pointer<T> &p, std::type_identity_t<T> expected, std::type_identity_t<T> v, \
           kimi::simt::Site site = kimi::simt::Site::here()) {                               \
        return kimi::simt::host::atomic_update<T>(                                           \
            p.place(), site, [expected, v](T old) { return old == expected ? v : old; });    \
    }

KIMI_SIMT_ATOMIC(atomicAdd, old + v)
KIMI_SIMT_ATOMIC(atomicAdd_block, old + v)
KIMI_SIMT_ATOMIC(atomicAdd_system, old + v)
KIMI_SIMT_ATOMIC(atomicMax, old < v ? v : old)
KIMI_SIMT_ATOMIC(atomicMax_block, old < v ? v : old)
KIMI_SIMT_ATOMIC(atomicMin, v < old ? v : old)
KIMI_SIMT_ATOMIC(atomicOr, old | v)
KIMI_SIMT_ATOMIC(atomicExch, ((void)old, v))
KIMI_SIMT_ATOMIC(atomicExch_system, ((void)old, v))
KIMI_SIMT_CAS(atomicCAS)
KIMI_SIMT_CAS(atomicCAS_system)
#undef KIMI_SIMT_ATOMIC
#undef KIMI_SIMT_CAS
