// The instructions, each wrapped once, for sm_80-class hardware features on sm_90 and sm_120.
// tests/simt/intrinsics.h has the same functions for the CPU; README.md lists them.
#pragma once

#include <cstring>

#include "kernels/simt/types.h"

#define KIMI_PTX __device__ __forceinline__

namespace kimi::simt {

// ---- values

template <typename To, typename From>
KIMI_PTX To bits(const From &value) {
    static_assert(sizeof(To) == sizeof(From));
    To out;
    memcpy(&out, &value, sizeof out);
    return out;
}

// The same value, which the compiler computes anew what follows from instead of keeping it in
// registers.
KIMI_PTX int opaque(int x) {
    asm volatile("" : "+r"(x));
    return x;
}

// LUT: the function of (0xf0, 0xcc, 0xaa) that is wanted of (a, b, c).
template <int Lut>
KIMI_PTX std::uint32_t lop3(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    std::uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(c), "n"(Lut));
    return d;
}

KIMI_PTX float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
KIMI_PTX float log2_approx(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
KIMI_PTX float rcp_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
KIMI_PTX float rsqrt_approx(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Pairs are packed with the first argument in the low half. Rounding is to nearest even.
KIMI_PTX std::uint32_t pack_bf16(float low, float high) {
    std::uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
KIMI_PTX float2 unpack_bf16(std::uint32_t pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000U)};
}
KIMI_PTX bf16 float_to_bf16(float x) {
    bf16 d;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(d) : "f"(x));
    return d;
}
KIMI_PTX float bf16_to_float(bf16 x) {
    return __uint_as_float(std::uint32_t{x} << 16);
}
KIMI_PTX std::uint32_t pack_f16(float low, float high) {
    std::uint32_t d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
KIMI_PTX float f16_to_float(f16 x) {
    float d;
    asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(x));
    return d;
}
KIMI_PTX float2 unpack_f16(std::uint32_t pair) {
    return {f16_to_float(static_cast<f16>(pair)), f16_to_float(static_cast<f16>(pair >> 16))};
}
// Values beyond 448 saturate, also the infinities.
KIMI_PTX std::uint16_t pack_e4m3(float low, float high) {
    std::uint16_t d;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(d) : "f"(high), "f"(low));
    return d;
}
KIMI_PTX std::uint32_t e4m3_to_f16(std::uint16_t pair) {
    std::uint32_t d;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(pair));
    return d;
}
KIMI_PTX float2 unpack_e4m3(std::uint16_t pair) {
    return unpack_f16(e4m3_to_f16(pair));
}
// a * b + c on two bf16 at once, rounded once.
KIMI_PTX std::uint32_t fma_bf16(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    std::uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// ---- loads and stores

template <typename U, typename T>
KIMI_PTX U *reinterpret(T *p) {
    return reinterpret_cast<U *>(p);
}

// One access of sizeof(V) bytes at a multiple of that: 1, 2, 4, 8 or 16.
template <typename V, typename T>
KIMI_PTX V load(const T *p) {
    return *reinterpret_cast<const V *>(p);
}
template <typename T, typename V>
KIMI_PTX void store(T *p, const V &value) {
    *reinterpret_cast<V *>(p) = value;
}

#define KIMI_PTX_LOAD(volatility, instruction, clobber)                         \
    if constexpr (sizeof(V) == 16) {                                            \
        uint4 r;                                                                \
        asm volatility(instruction ".v4.b32 {%0, %1, %2, %3}, [%4];"            \
                       : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)             \
                       : "l"(p)clobber);                                        \
        return bits<V>(r);                                                      \
    } else if constexpr (sizeof(V) == 8) {                                      \
        unsigned long long r;                                                   \
        asm volatility(instruction ".b64 %0, [%1];" : "=l"(r) : "l"(p)clobber); \
        return bits<V>(r);                                                      \
    } else if constexpr (sizeof(V) == 4) {                                      \
        unsigned r;                                                             \
        asm volatility(instruction ".b32 %0, [%1];" : "=r"(r) : "l"(p)clobber); \
        return bits<V>(r);                                                      \
    } else {                                                                    \
        static_assert(sizeof(V) == 2);                                          \
        unsigned short r;                                                       \
        asm volatility(instruction ".b16 %0, [%1];" : "=h"(r) : "l"(p)clobber); \
        return bits<V>(r);                                                      \
    }
#define KIMI_PTX_STORE(instruction, clobber)                                                       \
    if constexpr (sizeof(V) == 16) {                                                               \
        const uint4 r = bits<uint4>(value);                                                        \
        asm volatile(instruction ".v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(r.x), "r"(r.y),   \
                     "r"(r.z), "r"(r.w)                                                            \
                     : clobber);                                                                   \
    } else if constexpr (sizeof(V) == 8) {                                                         \
        asm volatile(instruction ".b64 [%0], %1;" ::"l"(p), "l"(bits<unsigned long long>(value))   \
                     : clobber);                                                                   \
    } else if constexpr (sizeof(V) == 4) {                                                         \
        asm volatile(instruction ".b32 [%0], %1;" ::"l"(p), "r"(bits<unsigned>(value)) : clobber); \
    } else {                                                                                       \
        static_assert(sizeof(V) == 2);                                                             \
        asm volatile(instruction ".b16 [%0], %1;" ::"l"(p), "h"(bits<unsigned short>(value))       \
                     : clobber);                                                                   \
    }
#define KIMI_PTX_NO_CLOBBER
#define KIMI_PTX_MEMORY : "memory"

// Global memory that nobody writes while the kernel runs. Volatile, so that no compiler moves it before
// grid_dependency_wait().
template <typename V, typename T>
KIMI_PTX V load_readonly(const T *p) {
    KIMI_PTX_LOAD(volatile, "ld.global.nc", KIMI_PTX_NO_CLOBBER)
}
// The same, for data that is read once: leaves L1 to others.
template <typename V, typename T>
KIMI_PTX V load_streaming(const T *p) {
    KIMI_PTX_LOAD(volatile, "ld.global.nc.L1::no_allocate", KIMI_PTX_NO_CLOBBER)
}
// Global memory that is not read again soon.
template <typename T, typename V>
KIMI_PTX void store_streaming(T *p, const V &value) {
    KIMI_PTX_STORE("st.global.cs", "memory")
}

// Flags and the data that goes with them. `_system` also orders against other devices.
template <typename V, typename T>
KIMI_PTX V load_volatile(const T *p) {
    KIMI_PTX_LOAD(volatile, "ld.volatile", KIMI_PTX_MEMORY)
}
template <typename T, typename V>
KIMI_PTX void store_volatile(T *p, const V &value) {
    KIMI_PTX_STORE("st.volatile", "memory")
}
template <typename V, typename T>
KIMI_PTX V load_acquire(const T *p) {
    static_assert(sizeof(V) <= 8);
    KIMI_PTX_LOAD(volatile, "ld.acquire.gpu", KIMI_PTX_MEMORY)
}
template <typename V, typename T>
KIMI_PTX V load_acquire_system(const T *p) {
    static_assert(sizeof(V) <= 8);
    KIMI_PTX_LOAD(volatile, "ld.acquire.sys", KIMI_PTX_MEMORY)
}
template <typename T, typename V>
KIMI_PTX void store_release(T *p, const V &value) {
    static_assert(sizeof(V) <= 8);
    KIMI_PTX_STORE("st.release.gpu", "memory")
}
template <typename T, typename V>
KIMI_PTX void store_release_system(T *p, const V &value) {
    static_assert(sizeof(V) <= 8);
    KIMI_PTX_STORE("st.release.sys", "memory")
}

#undef KIMI_PTX_LOAD
#undef KIMI_PTX_STORE
#undef KIMI_PTX_NO_CLOBBER
#undef KIMI_PTX_MEMORY

// ---- shared memory

// A part of the dynamic shared memory, whose start is aligned to 128 bytes. `count` is for the
// bounds check on the CPU.
template <typename T>
KIMI_PTX T *dynamic_shared(std::uint32_t byte_offset, std::uint32_t count) {
    extern __shared__ __align__(128) unsigned char kimi_dynamic_shared[];
    (void)count;
    return reinterpret_cast<T *>(kimi_dynamic_shared + byte_offset);
}

// Declares a static shared array, aligned to 16 bytes.
#define KIMI_SHARED(type, name, count) __shared__ __align__(16) type name[count]

KIMI_PTX std::uint32_t shared_address(const void *p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Every lane of the warp names one row of 16 bytes: lanes 0-7 those of the first 8x8 matrix of
// 16-bit elements, 8-15 of the second, and so on. x1 and x2 use the rows of lanes 0-7 and 0-15.
template <typename T>
KIMI_PTX void ldmatrix_x1(Fragment<std::uint32_t, 1> &f, const T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(f[0])
                 : "r"(shared_address(row))
                 : "memory");
}
template <typename T>
KIMI_PTX void ldmatrix_x1_trans(Fragment<std::uint32_t, 1> &f, const T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(f[0])
                 : "r"(shared_address(row))
                 : "memory");
}
template <typename T>
KIMI_PTX void ldmatrix_x2(FragB &f, const T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(f[0]), "=r"(f[1])
                 : "r"(shared_address(row))
                 : "memory");
}
template <typename T>
KIMI_PTX void ldmatrix_x2_trans(FragB &f, const T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(f[0]), "=r"(f[1])
                 : "r"(shared_address(row))
                 : "memory");
}
template <typename T>
KIMI_PTX void ldmatrix_x4(FragA &f, const T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(shared_address(row))
                 : "memory");
}
template <typename T>
KIMI_PTX void ldmatrix_x4_trans(FragA &f, const T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(shared_address(row))
                 : "memory");
}
// Matrices 0 and 1 into the first fragment, 2 and 3 into the second.
template <typename T>
KIMI_PTX void ldmatrix_x4(FragB &f, FragB &g, const T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(g[0]), "=r"(g[1])
                 : "r"(shared_address(row))
                 : "memory");
}
template <typename T>
KIMI_PTX void ldmatrix_x4_trans(FragB &f, FragB &g, const T *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(g[0]), "=r"(g[1])
                 : "r"(shared_address(row))
                 : "memory");
}

// ---- tensor cores: d += a * b

#define KIMI_PTX_MMA(shape_and_types)                                               \
    asm volatile("mma.sync.aligned." shape_and_types                                \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

KIMI_PTX void mma_bf16(FragC &d, const FragA &a, const FragB &b) {
    KIMI_PTX_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
KIMI_PTX void mma_f16(FragC &d, const FragA &a, const FragB &b) {
    KIMI_PTX_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
KIMI_PTX void mma_e4m3(FragC &d, const FragA &a, const FragB &b) {
    KIMI_PTX_MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32");
}
#undef KIMI_PTX_MMA

// ---- asynchronous copies from global to shared memory

// Copies Bytes (4, 8, 16), aligned to that on both sides; what is beyond `valid` bytes becomes 0
// and is not read.
template <int Bytes, typename D, typename S>
KIMI_PTX void cp_async(D *to, const S *from, int valid = Bytes) {
    if constexpr (Bytes == 16) {
        asm volatile(
            "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
            "l"(from), "r"(valid)
            : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)),
                     "l"(from), "n"(Bytes), "r"(valid)
                     : "memory");
    }
}
KIMI_PTX void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most Pending of this thread's youngest groups are under way. Makes the data
// visible to this thread only: a barrier must follow.
template <int Pending>
KIMI_PTX void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// `bytes` and both addresses are multiples of 16. One thread copies; the barrier counts the bytes.
template <typename D, typename S>
KIMI_PTX void cp_async_bulk(D *to, const S *from, std::uint32_t bytes, std::uint64_t *barrier) {
    asm volatile(
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}

// ---- barriers

// A named barrier (1-15; 0 is __syncthreads) of `threads`, a multiple of 32. Arrive does not wait.
KIMI_PTX void bar_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
KIMI_PTX void bar_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// An mbarrier is 8 bytes of shared memory. After mbarrier_init: fence_mbarrier_init (if bulk copies
// use it) and __syncthreads.
KIMI_PTX void mbarrier_init(std::uint64_t *barrier, std::uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}
KIMI_PTX void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Between reads or writes of shared memory by threads and a bulk copy into it.
KIMI_PTX void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
KIMI_PTX void mbarrier_arrive(std::uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}
KIMI_PTX void mbarrier_arrive_expect_tx(std::uint64_t *barrier, std::uint32_t bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}
// Whether the phase of this parity is over; may wait a while before it says no.
KIMI_PTX bool mbarrier_try_wait(std::uint64_t *barrier, std::uint32_t parity) {
    std::uint32_t done;
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return done != 0;
}
KIMI_PTX void mbarrier_wait(std::uint64_t *barrier, std::uint32_t parity) {
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

// ---- time and dependent launches

KIMI_PTX std::uint64_t global_timer_ns() {
    std::uint64_t t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)::"memory");
    return t;
}
// Returns when the kernels ahead in the stream have ended and their writes are visible. No effect
// unless the launch is `dependent`.
KIMI_PTX void grid_dependency_wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
// Lets the next kernel in the stream start, once every block has called this or ended.
KIMI_PTX void grid_dependency_launch() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace kimi::simt

#undef KIMI_PTX
