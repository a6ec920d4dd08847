// Asynchronous copies: what they copy, and looking at it too early.
#include <numeric>

#include "tests/simt/testing.h"

namespace kimi::simt::host {
namespace {

struct Source {
    Buffer<int> x{"x", [] {
                      std::vector<int> v(1024);
                      std::iota(v.begin(), v.end(), 0);
                      return v;
                  }()};
    Buffer<int> y{"y", std::vector<int>(1024, -1)};
    Global<const int> in = x.data();
    Global<int> out = y.data();
};

Report run_one(unsigned threads, std::function<void()> body) {
    return run_body({1}, {threads}, 8192, std::move(body));
}
Shared<int> ints() {
    return dynamic_shared<int>(0, 1024);
}
Shared<std::uint64_t> mbarriers() {
    return dynamic_shared<std::uint64_t>(4096, 4);
}

TEST_CASE("simt: cp.async copies what is valid and fills with zeros") {
    Source g;
    check_clean(run_one(32, [&] {
        const int valid = static_cast<int>(tid()) % 5 * 4;
        cp_async<16>(ints() + 4 * tid(), g.in + 4 * tid(), valid);
        cp_async<8>(ints() + 128 + 2 * tid(), g.in + 2 * tid());
        cp_async<4>(ints() + 192 + tid(), g.in + tid(), 2);  // half a word
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        for (unsigned i = 0; i < 7; ++i) g.out[32 * i + tid()] = ints()[32 * i + tid()];
    }));
    const auto got = g.y.download();
    for (int i = 0; i < 128; ++i) CHECK(got[i] == (i % 4 < i / 4 % 5 ? i : 0));
    for (int i = 0; i < 64; ++i) CHECK(got[128 + i] == i);
    for (int i = 0; i < 32; ++i) CHECK(got[192 + i] == (i & 0xffff));
    check_fault(run_one(1, [&] { cp_async<4>(ints(), g.in, 5); }), FaultKind::kBadArgument);
    // Nothing is read where nothing is valid.
    check_clean(run_one(1, [&] { cp_async<16>(ints(), g.in + 4096, 0); }));
}

TEST_CASE("simt: the destination of cp.async is not to be touched before the wait") {
    Source g;
    const auto body = [&](std::function<void()> wait, unsigned distance) {
        return run_one(64, [&g, wait, distance] {
            cp_async<4>(ints() + tid(), g.in + tid());
            wait();
            g.out[tid()] = ints()[tid() ^ distance];
        });
    };
    const auto waited = [] {
        cp_async_commit();
        cp_async_wait<0>();
    };
    check_fault(body([] {}, 0), FaultKind::kAsyncCopy, "has not waited for");
    check_fault(body([] { cp_async_commit(); }, 0), FaultKind::kAsyncCopy);
    check_fault(body([] { cp_async_wait<0>(); }, 0), FaultKind::kAsyncCopy);  // not committed
    check_fault(body(
                    [] {
                        cp_async_commit();
                        cp_async_wait<1>();
                    },
                    0),
                FaultKind::kAsyncCopy);
    check_fault(body(
                    [] {
                        cp_async_commit();
                        __syncthreads();
                    },
                    0),
                FaultKind::kAsyncCopy);
    check_clean(body(waited, 0));
    check_clean(body(
        [&] {
            waited();
            __syncthreads();
        },
        33));
    check_clean(body(
        [&] {
            waited();
            __syncwarp();
        },
        1));
    check_fault(body(
                    [&] {
                        __syncthreads();
                        waited();
                    },
                    1),
                FaultKind::kAsyncCopy);
    check_fault(body(
                    [&] {
                        cp_async_commit();
                        __syncthreads();
                        if (tid() % 2 == 1) cp_async_wait<0>();
                    },
                    1),
                FaultKind::kAsyncCopy, "has not waited");
    check_fault(body(
                    [&] {
                        ints()[tid()] = 1;
                        waited();
                    },
                    0),
                FaultKind::kAsyncCopy);
}

TEST_CASE("simt: waiting for older groups leaves younger ones pending") {
    Source g;
    const auto body = [&](unsigned read) {
        return run_one(32, [&g, read] {
            for (unsigned i = 0; i < 4; ++i) {
                cp_async<4>(ints() + 32 * i + tid(), g.in + tid());
                cp_async_commit();
            }
            cp_async_wait<2>();
            __syncthreads();
            g.out[tid()] = ints()[32 * read + 31 - tid()];
            cp_async_wait<0>();
        });
    };
    check_clean(body(0));
    check_clean(body(1));
    check_fault(body(2), FaultKind::kAsyncCopy);
    check_fault(body(3), FaultKind::kAsyncCopy);
}

TEST_CASE("simt: a pipeline stage is not refilled while others may still read it") {
    Source g;
    const auto body = [&](bool sync) {
        return run_one(64, [&g, sync] {
            for (int i = 0; i < 8; ++i) {
                if (sync) __syncthreads();
                cp_async<4>(ints() + tid(), g.in + 64 * i + tid());
                cp_async_commit();
                cp_async_wait<0>();
                __syncthreads();
                g.out[64 * i + tid()] = ints()[63 - tid()];
            }
        });
    };
    check_clean(body(true));
    check_fault(body(false), FaultKind::kSharedRace);
}

// ldmatrix hands a row to other lanes, so its own lane's wait is not enough.
TEST_CASE("simt: ldmatrix needs the copies of the whole warp") {
    Source g;
    const auto body = [&](bool sync) {
        return run_one(32, [&g, sync] {
            cp_async<16>(ints() + 4 * tid(), g.in + 4 * tid());
            cp_async_commit();
            cp_async_wait<0>();
            if (sync) __syncwarp();
            FragA a;
            ldmatrix_x4(a, ints() + 4 * tid());
            g.out[tid()] = static_cast<int>(a[0]);
        });
    };
    check_clean(body(true));
    check_fault(body(false), FaultKind::kSharedRace, "read by the whole warp");
}

// Two stages filled by bulk copies; every lane reads, then hands the stage back.
Report bulk_pipeline(const Source &g, bool wait_full, bool wait_empty) {
    return run_one(32, [&g, wait_full, wait_empty] {
        const auto full = mbarriers(), empty = mbarriers() + 2;
        if (tid() == 0) {
            for (int s = 0; s < 2; ++s) {
                mbarrier_init(full + s, 1);
                mbarrier_init(empty + s, 32);
            }
            fence_mbarrier_init();
        }
        __syncthreads();
        for (unsigned i = 0; i < 16; ++i) {
            const unsigned stage = i % 2, round = i / 2;
            if (tid() == 0) {
                if (round > 0 && wait_empty) mbarrier_wait(empty + stage, (round - 1) % 2);
                mbarrier_arrive_expect_tx(full + stage, 128);
                cp_async_bulk(ints() + 32 * stage, g.in + 32 * i, 128, full + stage);
            }
            if (wait_full) {
                mbarrier_wait(full + stage, round % 2);
            } else {
                __syncwarp();
            }
            g.out[32 * i + tid()] = ints()[32 * stage + 31 - tid()];
            wait_empty ? mbarrier_arrive(empty + stage) : void(__shfl_sync(~0U, 0, 0));
        }
    });
}

TEST_CASE("simt: bulk copies arrive with their mbarrier") {
    Source g;
    check_clean(bulk_pipeline(g, true, true));
    const auto got = g.y.download();
    for (int i = 0; i < 512; ++i) CHECK(got[i] == i / 32 * 32 + 31 - i % 32);
}

TEST_CASE("simt: bulk copies read too early or over a stage in use are found") {
    Source g;
    check_fault(bulk_pipeline(g, false, true), FaultKind::kAsyncCopy, "bulk copy");
    check_fault(bulk_pipeline(g, true, false), FaultKind::kSharedRace, "written without order");
    check_fault(run_one(64,
                        [&] {  // a barrier of the block is no substitute
                            if (tid() == 0) {
                                mbarrier_init(mbarriers(), 1);
                                mbarrier_arrive_expect_tx(mbarriers(), 256);
                                cp_async_bulk(ints(), g.in, 256, mbarriers());
                            }
                            __syncthreads();
                            g.out[tid()] = ints()[tid()];
                        }),
                FaultKind::kAsyncCopy, "bulk copy");
    check_clean(run_one(64, [&] {  // but one after somebody has waited is enough
        if (tid() == 0) {
            mbarrier_init(mbarriers(), 1);
            mbarrier_arrive_expect_tx(mbarriers(), 256);
            cp_async_bulk(ints(), g.in, 256, mbarriers());
            mbarrier_wait(mbarriers(), 0);
        }
        __syncthreads();
        g.out[tid()] = ints()[tid()];
    }));
}

TEST_CASE("simt: bulk copies have sizes in units of 16 bytes and count their bytes") {
    Source g;
    const auto body = [&](std::uint32_t expected, std::uint32_t bytes, int shift) {
        return run_one(1, [&g, expected, bytes, shift] {
            mbarrier_init(mbarriers(), 1);
            mbarrier_arrive_expect_tx(mbarriers(), expected);
            cp_async_bulk(ints() + shift, g.in, bytes, mbarriers());
            mbarrier_wait(mbarriers(), 0);
        });
    };
    check_clean(body(64, 64, 0));
    check_fault(body(64, 60, 0), FaultKind::kMisaligned);
    check_fault(body(64, 64, 1), FaultKind::kMisaligned);
    check_fault(body(80, 64, 0), FaultKind::kDeadlock, "16 bytes");
    check_fault(body(4096, 4112, 0), FaultKind::kOutOfBounds);
}

TEST_CASE("simt: mbarrier_try_wait says when the phase is over") {
    Source g;
    check_clean(run_one(64, [&] {
        if (tid() == 0) mbarrier_init(mbarriers(), 32);
        __syncthreads();
        if (tid() < 32) {
            while (!mbarrier_try_wait(mbarriers(), 0)) {
            }
            g.out[tid()] = ints()[tid() + 32];
        } else {
            ints()[tid()] = 7;
            mbarrier_arrive(mbarriers());
        }
    }));
    CHECK(g.y.download()[31] == 7);
}

}  // namespace
}  // namespace kimi::simt::host
