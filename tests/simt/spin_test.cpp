// Kernels that wait for each other, and time.
#include <vector>

#include "tests/simt/testing.h"

namespace kimi::simt::host {
namespace {

constexpr unsigned kDevices = 4;

// A board of flags: device d sets flags[to][d] on every other device and waits for its own row.
struct Board {
    std::vector<std::unique_ptr<Buffer<unsigned>>> flags, values;
    Global<unsigned> flag[kDevices], value[kDevices];

    Board() {
        for (unsigned d = 0; d < kDevices; ++d) {
            flags.push_back(
                std::make_unique<Buffer<unsigned>>("flags", std::vector<unsigned>(kDevices, 0)));
            values.push_back(
                std::make_unique<Buffer<unsigned>>("values", std::vector<unsigned>(kDevices, 0)));
            flag[d] = flags[d]->data();
            value[d] = values[d]->data();
        }
    }

    // Thread t of device d exchanges with device t; gives up after `patience` of virtual time.
    void exchange(unsigned d, unsigned generation, std::uint64_t patience_ns, unsigned &timeouts) {
        const unsigned t = tid();
        value[t][d] = 100 * d + generation;
        __threadfence_system();
        store_release_system(flag[t] + d, generation);
        const std::uint64_t start = global_timer_ns();
        while (static_cast<int>(load_acquire_system<unsigned>(flag[d] + t) - generation) < 0) {
            if (global_timer_ns() - start > patience_ns) {
                ++timeouts;
                return;
            }
        }
        const unsigned v = value[d][t];
        if (v != 100 * t + generation) value[d][kDevices] = 0;  // out of bounds: found
    }
};

std::function<void()> device(Board &board, unsigned d, unsigned n_launches, unsigned &timeouts) {
    return [&board, d, n_launches, &timeouts] {
        for (unsigned i = 1; i <= n_launches; ++i) {
            submit(launch_of({1}, {kDevices}, 0, [&board, d, i, &timeouts] {
                board.exchange(d, i, 10'000'000, timeouts);
            }));
        }
    };
}

TEST_CASE("simt: devices that spin on each other's flags run together") {
    for (const bool backward : {false, true}) {
        Board board;
        unsigned timeouts = 0;
        std::vector<std::function<void()>> devices;
        for (unsigned d = 0; d < kDevices; ++d) devices.push_back(device(board, d, 1, timeouts));
        check_clean(run_together(devices, {.backward = backward}));
        CHECK(timeouts == 0);
        for (unsigned d = 0; d < kDevices; ++d) {
            CHECK(board.flags[d]->download() == std::vector<unsigned>(kDevices, 1));
        }
    }
}

TEST_CASE("simt: a wait for a device that never comes ends in virtual time") {
    Board board;
    unsigned timeouts = 0;
    std::vector<std::function<void()>> devices;
    for (unsigned d = 0; d < kDevices - 1; ++d) devices.push_back(device(board, d, 1, timeouts));
    check_clean(run_together(devices));
    CHECK(timeouts == kDevices - 1);
    // Also when it is alone.
    timeouts = 0;
    check_clean(run(device(board, 3, 1, timeouts)));
    CHECK(timeouts == 0);  // the others' flags are set by now
}

TEST_CASE("simt: launches of a device run in order") {
    Board board;
    std::vector<int> order;
    const auto note = [&order](int i) {
        return launch_of({2}, {1}, 0, [&order, i] { order.push_back(i); });
    };
    check_clean(run_together({[&] { submit(note(1)), submit(note(2)); }}));
    CHECK(order == std::vector<int>{1, 1, 2, 2});
}

TEST_CASE("simt: a wait without end is reported as a hang") {
    Buffer<unsigned> flag("flag", std::vector<unsigned>{0});
    Global<unsigned> f = flag.data();
    check_fault(run_body({1}, {32},
                         [&] {
                             while (load_volatile<unsigned>(f) == 0) {
                             }
                         }),
                FaultKind::kHang, "nothing changes");
    check_fault(run_body({1}, {32},
                         [&] {
                             while (atomicCAS(f, 1U, 2U) != 1) {
                             }
                         }),
                FaultKind::kHang, "nothing changes");
}

TEST_CASE("simt: threads of a block may wait for each other's flags") {
    check_clean(run_body({3}, {64}, [] {
        KIMI_SHARED(unsigned, flag, 1);
        if (tid() == 0) flag[0] = 0;
        __syncthreads();
        if (tid() < 32) {
            while (load_volatile<unsigned>(flag) != 32) {
            }
        } else {
            atomicAdd(flag, 1U);
        }
    }));
}

TEST_CASE("simt: blocks of a cooperative launch wait for each other") {
    Buffer<unsigned> count("count", std::vector<unsigned>{0});
    Global<unsigned> c = count.data();
    const auto grid_barrier = [&](unsigned blocks, bool cooperative) {
        count.fill(0);
        return run(
            [&, blocks, cooperative] {
                Launch l = launch_of({blocks}, {32}, 0, [&c, blocks] {
                    if (tid() == 0) atomicAdd(c, 1U);
                    while (load_acquire<unsigned>(c) < blocks) {
                    }
                });
                l.cooperative = cooperative;
                submit(l);
            },
            {.workers = 2});
    };
    check_clean(grid_barrier(188, true));
    check_fault(grid_barrier(189, true), FaultKind::kBadLaunch, "188 fit");
    check_fault(grid_barrier(400, false), FaultKind::kHang, "cooperative");
}

TEST_CASE("simt: clocks move on, and loops over them end") {
    std::uint64_t passed = 0;
    check_clean(run_body({1}, {1}, [&] {
        const std::uint64_t start = global_timer_ns();
        while (global_timer_ns() < start + 1'000'000) {
        }
        passed = global_timer_ns() - start;
        const long long cycles = clock64();
        __nanosleep(100);
        CHECK(clock64() > cycles);
    }));
    CHECK(passed >= 1'000'000);
}

TEST_CASE("simt: dependent launches run in order, and their instructions do nothing") {
    Buffer<int> x("x", 1);
    Global<int> p = x.data();
    check_clean(run([&] {
        submit(launch_of({1}, {1}, 0, [&] {
            grid_dependency_launch();
            p[0] = 5;
        }));
        Launch l = launch_of({1}, {1}, 0, [&] {
            grid_dependency_wait();
            const int v = p[0];
            p[0] = v + 1;
        });
        l.dependent = true;
        submit(l);
    }));
    CHECK(x.download()[0] == 6);
}

TEST_CASE("simt: results and counters repeat, whatever the order and the number of OS threads") {
    Buffer<float> x("x", std::vector<float>(4096, 1.5F)), y("y", 4096);
    Global<const float> in = x.data();
    Global<float> out = y.data();
    const auto run_once = [&](unsigned workers, bool backward) {
        const Options options{.workers = workers, .backward = backward};
        const Report r = run_body(
            {16}, {256},
            [&] {
                KIMI_SHARED(float, s, 256);
                const unsigned i = blockIdx.x * 256 + tid();
                s[tid()] = in[i];
                __syncthreads();
                float v = s[255 - tid()];
                for (int d = 16; d > 0; d /= 2)
                    v += __shfl_xor_sync(~0U, v * static_cast<float>(d), d);
                out[i] = v;
            },
            options);
        check_clean(r);
        return std::pair(y.download(), r.counters("body").text() + r.counters("body").sites_text());
    };
    const auto first = run_once(1, false);
    for (int i = 0; i < 3; ++i) {
        CHECK(run_once(2, false) == first);
        CHECK(run_once(2, true) == first);
        CHECK(run_once(1, true) == first);
    }
}

TEST_CASE("simt: the fault reported first is that of the first block") {
    Buffer<int> x("x", std::vector<int>(4, 0));
    Global<int> p = x.data();
    for (int i = 0; i < 5; ++i) {
        const Report r = run_body({64}, {32}, [&] {
            if (blockIdx.x >= 20) (void)load<int>(p + 4);
        });
        REQUIRE(!r.clean());
        CHECK(r.faults[0].block == Dim3{20, 0, 0});
    }
}

}  // namespace
}  // namespace kimi::simt::host
