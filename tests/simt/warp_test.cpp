// Shuffles, votes and atomics give what CUDA's documentation says.
#include <vector>

#include "tests/simt/testing.h"

namespace kimi::simt::host {
namespace {

// What each of 32 lanes gets.
std::vector<int> by_lane(const std::function<int()> &f) {
    std::vector<int> got(32);
    check_clean(run_body({1}, {32}, [&] { got[tid()] = f(); }));
    return got;
}
int lane() {
    return static_cast<int>(tid());
}

TEST_CASE("simt: shuffles within segments of a width") {
    for (const int width : {32, 16, 8, 2, 1}) {
        const auto index = by_lane([&] { return __shfl_sync(~0U, lane(), 5, width); });
        const auto up = by_lane([&] { return __shfl_up_sync(~0U, lane(), 3, width); });
        const auto down = by_lane([&] { return __shfl_down_sync(~0U, lane(), 3, width); });
        const auto xor4 = by_lane([&] { return __shfl_xor_sync(~0U, lane(), 4, width); });
        for (int i = 0; i < 32; ++i) {
            const int first = i / width * width, in = i % width;
            CHECK(index[i] == first + 5 % width);
            CHECK(up[i] == (in >= 3 ? i - 3 : i));
            CHECK(down[i] == (in + 3 < width ? i + 3 : i));
            // Lanes may read earlier segments, but not later ones.
            CHECK(xor4[i] == ((i ^ 4) < first + width ? i ^ 4 : i));
        }
    }
    check_fault(run_body({1}, {32}, [] { __shfl_sync(~0U, 1, 0, 12); }), FaultKind::kBadArgument);
}

TEST_CASE("simt: shuffles move 4 and 8 bytes of any type") {
    by_lane([] {
        const auto other = static_cast<double>(tid() ^ 1U);
        CHECK(__shfl_xor_sync(~0U, static_cast<double>(tid()), 1) == other);
        CHECK(__shfl_xor_sync(~0U, static_cast<float>(tid()), 1) == static_cast<float>(other));
        CHECK(__shfl_xor_sync(~0U, 1ULL << tid(), 1) == 1ULL << (tid() ^ 1U));
        return 0;
    });
}

TEST_CASE("simt: votes") {
    for (const unsigned v : by_lane([] { return __ballot_sync(~0U, lane() % 3 == 0); })) {
        CHECK(v == 0x49249249U);
    }
    CHECK(by_lane([] { return __any_sync(~0U, lane() == 7); }) == std::vector<int>(32, 1));
    CHECK(by_lane([] { return __any_sync(~0U, 0); }) == std::vector<int>(32, 0));
    CHECK(by_lane([] { return __all_sync(~0U, lane() != 7); }) == std::vector<int>(32, 0));
    CHECK(by_lane([] { return __all_sync(~0U, lane() < 32); }) == std::vector<int>(32, 1));
    const auto halves = by_lane([] {
        return static_cast<int>(__ballot_sync(lane() < 16 ? 0xffffU : 0xffff0000U, lane() % 2));
    });
    CHECK(static_cast<unsigned>(halves[0]) == 0xaaaaU);
    CHECK(static_cast<unsigned>(halves[31]) == 0xaaaa0000U);
}

TEST_CASE("simt: atomics in global memory, from two OS threads") {
    Buffer<unsigned> n("n", std::vector<unsigned>{0, 0, 7, 0});
    Buffer<unsigned long long> wide("wide", std::vector<unsigned long long>{0, 5});
    Buffer<float> sum("sum", std::vector<float>{0});
    Global<unsigned> p = n.data();
    Global<unsigned long long> q = wide.data();
    Global<float> f = sum.data();
    check_clean(run_body({64}, {64},
                         [&] {
                             atomicAdd(p, 1U);
                             atomicMax(p + 1, blockIdx.x * 64 + tid());
                             atomicMin(p + 2, 3U);
                             atomicAdd(q, 1ULL << 32);
                             atomicAdd(f, 0.5F);
                             if (tid() == 0 && blockIdx.x == 9) {
                                 CHECK(atomicExch(q + 1, 6ULL) == 5);
                                 CHECK(atomicCAS(p + 3, 1U, 2U) == 0);
                                 CHECK(atomicCAS(p + 3, 0U, 9U) == 0);
                             }
                         },
                         {.workers = 2}));
    CHECK(n.download() == std::vector<unsigned>{4096, 4095, 3, 9});
    CHECK(wide.download() == std::vector<unsigned long long>{4096ULL << 32, 6});
    CHECK(sum.download()[0] == 2048);
}

TEST_CASE("simt: the last block to finish is found by a ticket") {
    Buffer<unsigned> ticket("ticket", std::vector<unsigned>{0});
    Buffer<int> parts("parts", 40), total("total", 1);
    Global<unsigned> t = ticket.data();
    Global<int> part = parts.data(), out = total.data();
    check_clean(run_body({40}, {32}, [&] {
        KIMI_SHARED(unsigned, mine, 1);
        if (tid() == 0) {
            part[blockIdx.x] = static_cast<int>(blockIdx.x);
            __threadfence();
            mine[0] = atomicAdd(t, 1U);
        }
        __syncthreads();
        if (mine[0] != 39 || tid() != 0) return;
        int sum = 0;
        for (int i = 0; i < 40; ++i) sum += part[i];
        out[0] = sum;
    }));
    CHECK(total.download()[0] == 780);
}

TEST_CASE("simt: indices of blocks and threads in three dimensions") {
    std::vector<unsigned> seen(2 * 3 * 4 * 8 * 2 * 2, 0);
    check_clean(run_body({2, 3, 4}, {8, 2, 2}, [&] {
        const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        ++seen[block * 32 + thread];
    }));
    CHECK(seen == std::vector<unsigned>(seen.size(), 1));
}

}  // namespace
}  // namespace kimi::simt::host
