// Barriers and warp operations that not everybody takes part in.
#include "tests/simt/testing.h"

namespace kimi::simt::host {
namespace {

TEST_CASE("simt: __syncthreads that not all threads reach is found") {
    check_clean(run_body({2}, {96}, [] { __syncthreads(); }));
    check_clean(run_body({1}, {40}, [] { __syncthreads(); }));  // no multiple of 32
    check_fault(run_body({1}, {64},
                         [] {
                             if (tid() != 5) __syncthreads();
                         }),
                FaultKind::kBarrierDivergence, "thread (5,0,0) has exited");
    check_fault(run_body({1}, {64},
                         [] {
                             if (tid() < 32) {
                                 __syncthreads();
                             } else {
                                 __syncthreads();
                             }
                         }),
                FaultKind::kBarrierDivergence, "while others wait");
    check_fault(run_body({1}, {64},
                         [] {
                             for (unsigned i = 0; i < 1 + tid() / 32; ++i)
                                 __syncthreads();  // different counts
                         }),
                FaultKind::kBarrierDivergence, "has exited");
}

TEST_CASE("simt: named barriers join the threads they count") {
    check_clean(run_body({1}, {128}, [] {
        if (tid() < 64) bar_sync(1, 64);
        if (tid() >= 64) bar_sync(2, 64);
        bar_sync(3, 128);
    }));
    check_clean(run_body({1}, {64}, [] { tid() < 32 ? bar_arrive(1, 64) : bar_sync(1, 64); }));
}

TEST_CASE("simt: named barriers with wrong counts, parts of warps or leftovers are found") {
    check_fault(run_body({1}, {64}, [] { bar_sync(1, tid() < 32 ? 64 : 32); }),
                FaultKind::kBarrierDivergence, "for 32 threads, while others wait at it for 64");
    check_fault(run_body({1}, {64},
                         [] {
                             if (tid() % 2 == 0) bar_sync(1, 32);
                         }),
                FaultKind::kBarrierDivergence, "only lanes 0x55555555");
    check_fault(run_body({1}, {64},
                         [] {
                             if (tid() < 32) bar_sync(1, 64);
                         }),
                FaultKind::kBarrierDivergence, "has exited");
    check_fault(run_body({1}, {64}, [] { bar_sync(1 + static_cast<int>(tid()) / 32, 64); }),
                FaultKind::kBarrierDivergence, "waits at barrier 2");
    check_fault(run_body({1}, {64},
                         [] {
                             if (tid() < 32) bar_arrive(1, 64);
                         }),
                FaultKind::kBarrierDivergence, "left with 32 of 64 arrivals");
    check_fault(run_body({1}, {64}, [] { bar_sync(1, 33); }), FaultKind::kBadArgument);
    check_fault(run_body({1}, {64}, [] { bar_sync(16, 32); }), FaultKind::kBadArgument);
}

TEST_CASE("simt: warp operations with missing lanes are found") {
    const auto sum = [](unsigned mask) { return __shfl_xor_sync(mask, 1, 1); };
    check_clean(run_body({1}, {32}, [&] { sum(~0U); }));
    check_clean(run_body({1}, {32}, [&] {
        if (tid() < 16) sum(0xffffU);
    }));
    check_fault(run_body({1}, {32},
                         [&] {
                             if (tid() < 16) sum(~0U);
                         }),
                FaultKind::kMissingLanes, "lane");
    check_fault(run_body({1}, {32},
                         [&] {
                             if (tid() >= 16) sum(~0U);  // the others are gone before
                         }),
                FaultKind::kMissingLanes, "have exited");
    check_fault(run_body({1}, {32}, [&] { sum(tid() < 16 ? 0xffff0000U : ~0U); }),
                FaultKind::kMissingLanes, "leaves out the calling lane");
    check_fault(run_body({1}, {32}, [&] { sum(tid() < 15 ? 0xffffU : ~0U); }),
                FaultKind::kMissingLanes, "with mask 0x0000ffff");
    check_fault(run_body({1}, {32},
                         [&] {
                             if (tid() < 16) {
                                 __syncwarp();
                             } else {
                                 sum(~0U);
                             }
                         }),
                FaultKind::kMissingLanes, "while other lanes");
    check_fault(run_body({1}, {64},
                         [&] {
                             if (tid() != 3) __syncwarp();
                             __syncthreads();
                         }),
                FaultKind::kMissingLanes, "thread (3,0,0) waits at barrier 0");
    check_fault(run_body({1}, {16}, [&] { sum(~0U); }), FaultKind::kMissingLanes, "do not exist");
    check_fault(run_body({1}, {32}, [] { __shfl_sync(0xffffU << 16 * (tid() / 16), 1, 3); }),
                FaultKind::kMissingLanes, "shuffle reads lane 3");
}

TEST_CASE("simt: tensor-core operations need the whole warp") {
    const auto multiply = [] {
        FragC c = {};
        FragA a = {};
        FragB b = {};
        mma_bf16(c, a, b);
        return c[0];
    };
    check_clean(run_body({1}, {64}, [&] { multiply(); }));
    check_fault(run_body({1}, {32},
                         [&] {
                             if (tid() < 16) multiply();
                         }),
                FaultKind::kMissingLanes, "mma_bf16");
    check_fault(run_body({1}, {32},
                         [&] {
                             if (tid() >= 16) multiply();
                         }),
                FaultKind::kMissingLanes, "have exited");
    check_fault(run_body({1}, {16}, [&] { multiply(); }), FaultKind::kMissingLanes, "do not exist");
    check_fault(run_body({1}, {32},
                         [&] {
                             if (tid() == 7) {
                                 __syncwarp();
                             } else {
                                 multiply();
                                 __syncwarp();
                             }
                         }),
                FaultKind::kMissingLanes, "mma_bf16");
    check_fault(run_body({1}, {32},
                         [] {
                             FragC c = {};
                             FragA a = {};
                             FragB b = {};
                             if (tid() == 7) {
                                 mma_f16(c, a, b);
                             } else {
                                 mma_bf16(c, a, b);
                             }
                         }),
                FaultKind::kMissingLanes, "while other lanes of the warp do");
}

TEST_CASE("simt: a deadlock names what the threads wait for") {
    check_fault(run_body({1}, {64}, 8,
                         [] {
                             const auto barrier = dynamic_shared<std::uint64_t>(0, 1);
                             if (tid() == 0) mbarrier_init(barrier, 64);
                             __syncthreads();
                             if (tid() != 9) mbarrier_arrive(barrier);
                             mbarrier_wait(barrier, 0);
                         }),
                FaultKind::kDeadlock, "misses 1 arrivals");
}

TEST_CASE("simt: exits and divergence do not disturb others that meet") {
    Buffer<int> y("y", std::vector<int>(64, -1));
    Global<int> out = y.data();
    check_clean(run_body({1}, {64}, [&] {
        if (tid() >= 32) return;
        const unsigned half = 0xffffU << 16 * (tid() / 16);
        int v = static_cast<int>(tid());
        for (unsigned i = 0; i <= tid() / 16; ++i) v += __shfl_xor_sync(half, v, 1);
        out[tid()] = v;
    }));
    const auto got = y.download();
    CHECK(got[0] == 1);
    CHECK(got[2] == 5);
    CHECK(got[16] == 66);
    CHECK(got[32] == -1);
}

}  // namespace
}  // namespace kimi::simt::host
