// Every wrapper, once: that nvcc and the host compiler accept the same source, and that the results
// are the documented ones. One block of 64 threads.
#include "tests/simt/wrappers.h"

#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

constexpr unsigned kThreads = 64, kAll = 0xffffffffU;

__device__ __forceinline__ void loads_and_stores(const WrapperParams &p, Global<float> y) {
    const float4 v = load<float4>(p.x + 4);
    const float2 w = load_readonly<float2>(p.x + 2);
    const float4 s = load_streaming<float4>(p.x + 8);
    y[0] = v.x + w.y + s.z;  // 4 + 3 + 10
    store(y + 2, float2{w.x, v.y});
    store_streaming(y + 4, s);
    y[1] = static_cast<float>(
        load_readonly<std::uint16_t>(reinterpret<const std::uint16_t>(p.half + 1)));
    y[8] += y[2];
    y[8] -= 1;
    y[8] *= 4;
    store_volatile(y + 9, 3.0F);
    store_release(p.flag, 7U);
    store_release_system(p.flag + 1, 8U);
    y[10] = static_cast<float>(load_acquire<std::uint32_t>(p.flag) +
                               load_acquire_system<std::uint32_t>(p.flag + 1)) +
            load_volatile<float>(y + 9);
}

__device__ __forceinline__ void values(Global<float> y) {
    const float2 e = unpack_e4m3(pack_e4m3(1.5F, -448));
    const float2 h = unpack_f16(pack_f16(0.25F, 2));
    const float2 b = unpack_bf16(fma_bf16(pack_bf16(2, 3), pack_bf16(5, 7), pack_bf16(1, 2)));
    y[11] = e.x + e.y + h.x + h.y + b.x + b.y;  // 1.5 - 448 + 0.25 + 2 + 11 + 23
    y[12] = exp2_approx(3) + log2_approx(4) + rcp_approx(2) + rsqrt_approx(4);
    y[13] =
        bf16_to_float(float_to_bf16(3)) + f16_to_float(0x3c00) + unpack_f16(e4m3_to_f16(0x3838)).y;
    y[14] = static_cast<float>(lop3<0xea>(5, 6, 8) + __byte_perm(0x04030201, 0, 0x4443));
    y[15] = bits<float>(0x3f800000U) + __uint_as_float(__float_as_uint(2.0F));
}

__device__ __forceinline__ void copies(const WrapperParams &p, Shared<bf16> s, Global<float> y) {
    KIMI_SHARED(std::uint64_t, full, 2);
    const unsigned t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(full, 1);
        mbarrier_init(full + 1, kThreads);
        fence_mbarrier_init();
    }
    if (t < 8) cp_async<16>(s + 8 * t, p.half + 8 * t);
    if (t < 16) cp_async<8>(s + 64 + 4 * t, p.half + 64 + 4 * t, 6);
    if (t < 32) cp_async<4>(s + 128 + 2 * t, p.half + 2 * t);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    if (t == 0) {
        fence_proxy_async();
        mbarrier_arrive_expect_tx(full, 128);
        cp_async_bulk(s + 192, p.half, 128, full);
    }
    mbarrier_wait(full, 0);
    const float sum = bf16_to_float(s[t]) + bf16_to_float(s[64 + t]) + bf16_to_float(s[128 + t]) +
                      bf16_to_float(s[192 + t]);
    mbarrier_arrive(full + 1);
    while (!mbarrier_try_wait(full + 1, 0)) {
    }
    if (t == 5) y[16] = sum;  // 5 + 69 + 5 + 5
    if (t == 7) y[17] = sum;  // 7 + 0 + 7 + 7
}

__device__ __forceinline__ void matrices(Shared<bf16> s, Global<float> y) {
    const unsigned lane = threadIdx.x % 32;
    const Shared<bf16> row = s + 8 * lane;
    FragA a, at;
    FragB b, bt, c, d;
    Fragment<std::uint32_t, 1> one, one_t;
    ldmatrix_x4(a, row);
    ldmatrix_x4_trans(at, row);
    ldmatrix_x4(b, c, row);
    ldmatrix_x4_trans(bt, d, row);
    ldmatrix_x2(b, row);
    ldmatrix_x2_trans(bt, row);
    ldmatrix_x1(one, row);
    ldmatrix_x1_trans(one_t, row);
    FragC bf16_sum = {}, f16_sum = {}, e4m3_sum = {};
    mma_bf16(bf16_sum, a, b);
    mma_f16(f16_sum, at, bt);
    mma_e4m3(e4m3_sum, a, c);
    if (threadIdx.x == 0) {
        y[18] = bf16_sum[0];  // row 0 of A times column 0 of B
        y[19] = static_cast<float>(one[0] == a[0]) + static_cast<float>(one_t[0] == at[0]) +
                static_cast<float>(d[1] == at[3]);
        y[20] = f16_sum[3] * 0 + e4m3_sum[1] * 0;
    }
}

__device__ __forceinline__ void warps(const WrapperParams &p, Global<float> y) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    int v = __shfl_sync(kAll, lane, 3) + __shfl_up_sync(kAll, lane, 1) +
            __shfl_down_sync(kAll, lane, 1) + __shfl_xor_sync(kAll, lane, 1, 2);
    __syncwarp();
    if (__any_sync(kAll, lane == 9) && __all_sync(kAll, lane < 32)) ++v;
    v += __popc(__ballot_sync(kAll, lane < 4));
    if (threadIdx.x == 10) y[21] = static_cast<float>(v);  // 3 + 9 + 11 + 11 + 1 + 4
    if (threadIdx.x < 32) {
        bar_arrive(1, 64);
    } else {
        bar_sync(1, 64);
    }
    bar_sync(2, 64);
    atomicAdd(p.flag + 2, 1U);
    atomicMax(p.flag + 3, threadIdx.x);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd_system(p.flag + 2, 1U);
        const unsigned n = atomicExch(p.flag + 2, 0U), m = atomicCAS(p.flag + 3, 63U, 1U);
        y[22] = static_cast<float>(n + m);  // 65 + 63
        __threadfence_system();
        y[23] = global_timer_ns() > 0 ? 1.0F : 0.0F;
    }
}

__global__ void __launch_bounds__(kThreads) wrappers_kernel(WrapperParams p) {
    grid_dependency_wait();
    const Shared<bf16> s = dynamic_shared<bf16>(0, 256);
    if (threadIdx.x == 0) {
        p.y[8] = 0;
        loads_and_stores(p, p.y);
        values(p.y);
    }
    copies(p, s, p.y);
    matrices(s, p.y);
    warps(p, p.y);
    grid_dependency_launch();
}

}  // namespace

void use_wrappers(const WrapperParams &p, Stream stream) {
    launch({.name = "wrappers",
            .grid = {1},
            .block = {kThreads},
            .shared_bytes = 256 * sizeof(bf16),
            .stream = stream,
            .dependent = true},
           wrappers_kernel, p);
}

}  // namespace kimi
