// The CPU's side of kernels/simt: CUDA's keywords, and the functions of ptx.h.
#pragma once

#include "kernels/simt/types.h"
#include "tests/simt/async.h"
#include "tests/simt/atomics.h"
#include "tests/simt/block.h"
#include "tests/simt/numeric.h"
#include "tests/simt/tensor.h"
#include "tests/simt/warp.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define threadIdx (::kimi::simt::host::current_thread().position)
#define blockIdx (::kimi::simt::host::current_thread().block->index())
#define blockDim (::kimi::simt::host::current_thread().block->launch().block)
#define gridDim (::kimi::simt::host::current_thread().block->launch().grid)

#define KIMI_SHARED(type, name, count) \
    static const char name##_key = 0;  \
    const ::kimi::simt::Shared<type> name = ::kimi::simt::static_shared<type>(&name##_key, count)

namespace kimi::simt {

inline int opaque(int x) {
    return x;
}

// ---- loads and stores

template <typename V, typename T>
V load(const Global<T> &p, Site site = Site::here()) {
    return host::load_from<V>(p.place(), host::Touch::kLoad, site);
}
template <typename V, typename T>
V load(const Shared<T> &p, Site site = Site::here()) {
    return host::load_from<V>(p.place(), host::Touch::kLoad, site);
}
template <typename T, typename V>
void store(const Global<T> &p, const V &value, Site site = Site::here()) {
    static_assert(!std::is_const_v<T>);
    host::store_to(p.place(), value, host::Touch::kStore, site);
}
template <typename T, typename V>
void store(const Shared<T> &p, const V &value, Site site = Site::here()) {
    static_assert(!std::is_const_v<T>);
    host::store_to(p.place(), value, host::Touch::kStore, site);
}
template <typename V, typename T>
V load_readonly(const Global<T> &p, Site site = Site::here()) {
    static_assert(sizeof(V) >= 2);
    return host::load_from<V>(p.place(), host::Touch::kReadOnlyLoad, site);
}
template <typename V, typename T>
V load_streaming(const Global<T> &p, Site site = Site::here()) {
    static_assert(sizeof(V) >= 2);
    return host::load_from<V>(p.place(), host::Touch::kReadOnlyLoad, site);
}
template <typename T, typename V>
void store_streaming(const Global<T> &p, const V &value, Site site = Site::here()) {
    store(p, value, site);
}

// ---- shared memory

template <typename T>
Shared<T> dynamic_shared(std::uint32_t byte_offset, std::uint32_t count, Site site = Site::here()) {
    const std::uint64_t bytes = std::uint64_t{count} * sizeof(T);
    return Shared<T>(host::current_thread().block->dynamic_shared(byte_offset, bytes, site));
}
template <typename T>
Shared<T> static_shared(const void *key, std::uint32_t count, Site site = Site::here()) {
    const std::uint64_t bytes = std::uint64_t{count} * sizeof(T);
    return Shared<T>(host::current_thread().block->static_shared(key, bytes, site));
}

// ---- asynchronous copies

template <int Bytes, typename D, typename S>
void cp_async(const Shared<D> &to, const Global<S> &from, int valid = Bytes,
              Site site = Site::here()) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
    host::async_copy(to.place(), from.place(), Bytes, static_cast<unsigned>(valid), site);
}
inline void cp_async_commit() {
    host::async_commit();
}
template <int Pending>
void cp_async_wait() {
    host::async_wait(Pending);
}
template <typename D, typename S>
void cp_async_bulk(const Shared<D> &to, const Global<S> &from, std::uint32_t bytes,
                   const Shared<std::uint64_t> &barrier, Site site = Site::here()) {
    host::bulk_copy(to.place(), from.place(), bytes, barrier.place(), site);
}

// ---- barriers

inline void bar_sync(int id, int threads, Site site = Site::here()) {
    host::current_thread().block->barrier(static_cast<unsigned>(id), static_cast<unsigned>(threads),
                                          true, site);
}
inline void bar_arrive(int id, int threads, Site site = Site::here()) {
    host::current_thread().block->barrier(static_cast<unsigned>(id), static_cast<unsigned>(threads),
                                          false, site);
}
inline void mbarrier_init(const Shared<std::uint64_t> &barrier, std::uint32_t arrivals,
                          Site site = Site::here()) {
    host::mbarrier_init(barrier.place(), arrivals, site);
}
inline void mbarrier_arrive(const Shared<std::uint64_t> &barrier, Site site = Site::here()) {
    host::mbarrier_arrive(barrier.place(), 0, site);
}
inline void mbarrier_arrive_expect_tx(const Shared<std::uint64_t> &barrier, std::uint32_t bytes,
                                      Site site = Site::here()) {
    host::mbarrier_arrive(barrier.place(), bytes, site);
}
inline bool mbarrier_try_wait(const Shared<std::uint64_t> &barrier, std::uint32_t parity,
                              Site site = Site::here()) {
    return host::mbarrier_test(barrier.place(), parity, site);
}
inline void mbarrier_wait(const Shared<std::uint64_t> &barrier, std::uint32_t parity,
                          Site site = Site::here()) {
    host::mbarrier_wait(barrier.place(), parity, site);
}

// Fences have no effect here: everything is seen at once and in order.
inline void fence_mbarrier_init() {}
inline void fence_proxy_async() {}

// ---- time and dependent launches

inline std::uint64_t global_timer_ns(Site site = Site::here()) {
    return host::read_clock(site);
}
inline void grid_dependency_wait() {}
inline void grid_dependency_launch() {}

}  // namespace kimi::simt

// ---- CUDA's own names

inline void __syncthreads(kimi::simt::Site site = kimi::simt::Site::here()) {
    kimi::simt::host::Block &block = *kimi::simt::host::current_thread().block;
    block.barrier(0, block.n_threads(), true, site);
}
inline void __threadfence_block() {}
inline void __threadfence() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned, kimi::simt::Site site = kimi::simt::Site::here()) {
    kimi::simt::host::read_clock(site);
}
inline long long clock64(kimi::simt::Site site = kimi::simt::Site::here()) {
    return static_cast<long long>(kimi::simt::host::read_clock(site));
}
