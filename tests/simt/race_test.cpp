// Conflicting accesses to shared memory, without and with what orders them.
#include "tests/simt/testing.h"

namespace kimi::simt::host {
namespace {

constexpr std::size_t kBytes = 4096;

Shared<int> ints() {
    return dynamic_shared<int>(0, 512);
}
Shared<std::uint64_t> mbarriers() {
    return dynamic_shared<std::uint64_t>(2048, 8);
}
Report run_one(unsigned threads, std::function<void()> body) {
    return run_body({1}, {threads}, kBytes, std::move(body));
}

// Writes, orders, reads what another thread wrote.
Report exchange(unsigned threads, unsigned distance, std::function<void()> order) {
    return run_one(threads, [=] {
        const auto s = ints();
        s[tid()] = 0;
        __syncthreads();
        s[tid()] = 1;
        order();
        const int v = s[(tid() + distance) % threads];
        (void)v;
    });
}

TEST_CASE("simt: reading what another thread wrote needs an order") {
    check_fault(exchange(64, 1, [] {}), FaultKind::kSharedRace, "without order after");
    check_fault(exchange(64, 1, [] { __syncwarp(); }), FaultKind::kSharedRace);
    check_clean(exchange(64, 1, [] { __syncthreads(); }));
    check_clean(exchange(32, 1, [] { __syncwarp(); }));
    check_clean(exchange(64, 0, [] {}));  // itself
    check_fault(exchange(32, 1, [] { __shfl_sync(~0U, 1, 0); }), FaultKind::kSharedRace);
    check_fault(exchange(32, 1, [] { __ballot_sync(~0U, 1); }), FaultKind::kSharedRace);
    check_fault(exchange(32, 1, [] { __threadfence_block(); }), FaultKind::kSharedRace);
}

TEST_CASE("simt: a race names both places and threads") {
    const Report r = exchange(64, 32, [] { __syncwarp(); });
    REQUIRE(!r.clean());
    CHECK(test::contains(r.faults[0].text(), "without order after thread ("));
    CHECK(test::contains(r.faults[0].detail, "race_test.cpp"));
}

TEST_CASE("simt: writing what another thread reads or writes needs an order") {
    const auto overwrite = [](unsigned threads, std::function<void()> order) {
        return run_one(threads, [=] {
            const auto s = ints();
            s[tid()] = 1;
            __syncthreads();
            const int v = s[tid() ^ 1U];
            order();
            s[tid()] = v;
        });
    };
    check_fault(overwrite(64, [] {}), FaultKind::kSharedRace);
    check_clean(overwrite(64, [] { __syncwarp(); }));
    check_clean(overwrite(64, [] { __syncthreads(); }));
    check_fault(run_one(2, [] { ints()[0] = 1; }), FaultKind::kSharedRace, "written without order");
    check_clean(run_one(2, [] { ints()[tid()] = 1; }));
}

TEST_CASE("simt: all readers since the last write count") {
    const auto body = [](bool all_sync) {
        return run_one(128, [=] {
            const auto s = ints();
            if (tid() == 0) s[0] = 1;
            __syncthreads();
            const int v = s[0];  // by every warp
            if (tid() < 96 || all_sync) bar_sync(1, all_sync ? 128 : 96);
            if (tid() == 0) s[0] = v + 1;
        });
    };
    check_clean(body(true));
    check_fault(body(false), FaultKind::kSharedRace, "written without order after");
}

TEST_CASE("simt: part of a warp synchronises only itself") {
    const auto body = [](unsigned distance) {
        return run_one(32, [=] {
            const auto s = ints();
            s[tid()] = 0;
            __syncwarp();
            s[tid()] = 1;
            __syncwarp(0xffU << 8 * (tid() / 8));
            const int v = s[tid() ^ distance];
            (void)v;
        });
    };
    check_clean(body(7));
    check_fault(body(8), FaultKind::kSharedRace);
}

TEST_CASE("simt: named barriers order those who take part") {
    const auto body = [](unsigned producer_of_1) {
        return run_one(96, [=] {
            const auto s = ints();
            const unsigned warp = tid() / 32;
            if (warp < 2) s[tid()] = 1;
            if (warp == 0) bar_arrive(1, 64);
            if (warp != 2) return;
            bar_sync(1, 64);
            const int v = s[tid() % 32 + 32 * producer_of_1];
            (void)v;
        });
    };
    check_clean(body(0));
    check_fault(body(1), FaultKind::kSharedRace);
    check_fault(run_one(64,
                        [] {  // arriving orders nothing for the one who arrives
                            const auto s = ints();
                            if (tid() >= 32) s[tid()] = 1;
                            tid() < 32 ? bar_arrive(1, 64) : bar_sync(1, 64);
                            if (tid() < 32) s[tid() + 32] = 2;
                        }),
                FaultKind::kSharedRace);
}

TEST_CASE("simt: mbarriers order arrivals before waits") {
    const auto pipeline = [](bool consumer_arrives) {
        return run_one(64, [=] {
            const auto s = ints();
            const auto full = mbarriers(), empty = mbarriers() + 1;
            if (tid() == 0) {
                mbarrier_init(full, 32);
                mbarrier_init(empty, 32);
            }
            __syncthreads();
            const bool produces = tid() < 32;
            for (unsigned i = 0; i < 6; ++i) {
                if (produces) {
                    if (i > 0 && consumer_arrives) mbarrier_wait(empty, (i - 1) % 2);
                    s[tid()] = static_cast<int>(i);
                    mbarrier_arrive(full);
                    if (!consumer_arrives) break;
                } else {
                    mbarrier_wait(full, i % 2);
                    const int v = s[63 - tid()];
                    if (v != static_cast<int>(i)) s[1000] = 0;  // out of bounds: found
                    if (!consumer_arrives) break;
                    mbarrier_arrive(empty);
                }
            }
            if (!consumer_arrives && produces) s[tid()] = 7;
        });
    };
    check_clean(pipeline(true));
    check_fault(pipeline(false), FaultKind::kSharedRace);
}

TEST_CASE("simt: an mbarrier releases what its lane knows, not what other lanes did") {
    const auto body = [](bool sync_before) {
        return run_one(64, [=] {
            const auto s = ints();
            if (tid() == 0) mbarrier_init(mbarriers(), 1);
            __syncthreads();
            if (tid() < 32) {
                s[tid()] = 1;
                if (sync_before) __syncwarp();
                if (tid() == 0) mbarrier_arrive(mbarriers());
            } else {
                mbarrier_wait(mbarriers(), 0);
                const int v = s[tid() - 32];
                (void)v;
            }
        });
    };
    check_clean(body(true));
    check_fault(body(false), FaultKind::kSharedRace);
    check_fault(run_one(64,
                        [] {  // used without order after its initialisation
                            if (tid() == 0) mbarrier_init(mbarriers(), 1);
                            if (tid() == 32) mbarrier_arrive(mbarriers());
                        }),
                FaultKind::kSharedRace, "initialisation");
    check_fault(run_one(1, [] { mbarrier_arrive(mbarriers()); }), FaultKind::kUnwrittenShared,
                "not an initialised mbarrier");
}

TEST_CASE("simt: lanes that arrive more often than others disturb nothing") {
    // Lane 0 of each consumer warp also arrives elsewhere, before all of them read the stage by
    // ldmatrix and by word.
    const auto body = [](bool arrive_early) {
        return run_one(96, [=] {
            const auto s = ints();
            const auto full = mbarriers(), empty = full + 1, other = full + 2;
            if (tid() == 0) {
                mbarrier_init(full, 32);
                mbarrier_init(empty, 64);
                mbarrier_init(other, 1);
            }
            __syncthreads();
            for (unsigned i = 0; i < 5; ++i) {
                if (tid() < 32) {
                    if (i > 0) mbarrier_wait(empty, (i - 1) % 2);
                    for (unsigned j = 0; j < 4; ++j) s[4 * tid() + j] = static_cast<int>(i);
                    mbarrier_arrive(full);
                } else {
                    if (tid() % 32 == 0) mbarrier_arrive(other);
                    mbarrier_wait(full, i % 2);
                    if (arrive_early) mbarrier_arrive(empty);
                    __syncwarp();
                    if (tid() % 32 == 0) mbarrier_arrive(other);
                    FragA a;
                    ldmatrix_x4(a, s + 4 * (tid() % 32));
                    const int v = s[7];
                    const bool right = a[0] + a[3] == 2 * i && v == static_cast<int>(i);
                    if (!right && !arrive_early) s[1000] = 0;  // out of bounds: found
                    if (!arrive_early) mbarrier_arrive(empty);
                }
            }
        });
    };
    check_clean(body(false));
    check_fault(body(true), FaultKind::kSharedRace);
}

TEST_CASE("simt: atomics do not race with each other and order what is around them") {
    check_clean(run_one(64, [] {
        if (tid() == 0) ints()[0] = 0;
        __syncthreads();
        atomicAdd(ints(), 1);
        __syncthreads();
        const int n = ints()[0];
        if (n != 64) ints()[1000] = 0;
    }));
    const auto body = [](bool by_flag) {
        return run_one(64, [=] {
            const auto s = ints();
            if (tid() < 2) s[tid()] = 0;
            __syncthreads();
            if (tid() == 0) {
                s[1] = 5;
                __threadfence_block();
                if (by_flag) atomicExch(s, 1);
            } else if (tid() == 63) {
                while (by_flag && load_acquire<int>(s) == 0) {
                }
                const int v = s[1];
                (void)v;
            }
        });
    };
    check_clean(body(true));
    check_fault(body(false), FaultKind::kSharedRace);
}

}  // namespace
}  // namespace kimi::simt::host
