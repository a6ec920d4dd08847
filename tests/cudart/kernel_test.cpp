#include <numeric>
#include <thread>

#include "base/bf16.h"
#include "kernels/all_reduce.h"
#include "tests/cudart/testing.h"

namespace kimi::cudart::test {
namespace {

TEST_CASE("cuda: launches that CUDA refuses") {
    const Session session({.n_sms = 4});
    const cudaStream_t s = new_stream();
    const auto refused = [s](simt::Dim3 grid, simt::Dim3 block, std::size_t shared,
                             bool cooperative) {
        const Error error = kimi::test::error_of([&] {
            simt::host::submit({"k", grid, block, shared, s, false, cooperative, [] {}});
        });
        CHECK(error.status == KIMI_INTERNAL);
        CHECK(contains(error.text, "kernel k: invalid configuration argument"));
    };
    refused({1}, {1025}, 0, false);
    refused({0}, {32}, 0, false);
    refused({1, 65536}, {32}, 0, false);
    refused({1}, {32}, 101377, false);
    refused({5}, {32}, 0, true);
    ok(cudaStreamDestroy(s));
}

TEST_CASE("cuda: a kernel that writes out of bounds, or throws, breaks the device") {
    const Session session;
    for (const bool throws : {false, true}) {
        int *p = on_device<int>(31);
        const cudaStream_t s = new_stream();
        launch_each("wild", 32, s, [p = simt::Global<int>(p), throws](std::ptrdiff_t i) {
            if (throws && i == 31) fail(KIMI_INTERNAL, "thrown by the kernel");
            p[i] = 1;
        });
        expect(throws ? cudaErrorLaunchFailure : cudaErrorIllegalAddress, cudaStreamSynchronize(s));
        CHECK(contains(last_fault(), throws ? "thrown by the kernel" : "out of bounds"));
        ok(cudaDeviceReset());
    }
}

TEST_CASE("cuda: a kernel that waits for ever ends when patience does") {
    const Session session({.patience_s = 0.05});
    int *p = on_device(std::vector<int>(2));
    const cudaStream_t s = new_stream();
    meet(p, 0, 1, 1, s);
    expect(cudaErrorLaunchTimeout, cudaStreamSynchronize(s));
    CHECK(contains(last_fault(), "hang"));
    ok(cudaDeviceReset());
}

TEST_CASE("cuda: kernels of two devices can wait for each other, in the order of any threads") {
    const Session session({.n_devices = 2});
    int *flags = nullptr;
    std::thread first([&] {
        ok(cudaSetDevice(0));
        flags = on_device(std::vector<int>(2));
    });
    first.join();
    const auto rank = [&](int device) {
        ok(cudaSetDevice(device));
        if (device == 1) ok(cudaDeviceEnablePeerAccess(0, 0));
        const cudaStream_t s = new_stream();
        for (int call = 1; call <= 20; ++call) {
            meet(flags, device, 1 - device, call, s);
            if (call % 3 == device) ok(cudaStreamSynchronize(s));
        }
        ok(cudaStreamSynchronize(s));
        ok(cudaStreamDestroy(s));
    };
    { std::jthread a(rank, 0), b(rank, 1); }
    CHECK(download(flags, 2) == std::vector<int>{20, 20});
    ok(cudaFree(flags));
}

// The ranks of all_reduce with their memory, each with a host thread of its own.
class World {
  public:
    static constexpr std::uint32_t kRows = 2, kWidth = 256;
    static constexpr std::size_t kSize = std::size_t{kRows} * kWidth;

    explicit World(std::uint32_t n) : ranks_(n) {
        for (std::uint32_t r = 0; r < n; ++r) {
            ok(cudaSetDevice(static_cast<int>(r)));
            for (std::uint32_t peer = 0; peer < n; ++peer)
                if (peer != r) ok(cudaDeviceEnablePeerAccess(static_cast<int>(peer), 0));
            Rank &rank = ranks_[r];
            const std::size_t elements = all_reduce_elements(kRows, kWidth);
            rank.buffer = {on_device<bf16>(elements), on_device<bf16>(elements),
                           on_device(std::vector<std::uint32_t>(all_reduce_flags(n, kRows)))};
            rank.counters = on_device(std::vector<std::uint32_t>{0, 0, 0, kRows});
            rank.in = on_device(input(r));
            rank.x = on_device(std::vector<float>(kSize));
            rank.stream = new_stream();
        }
    }
    ~World() {
        for (std::size_t r = 0; r < ranks_.size(); ++r) ok(cudaStreamDestroy(ranks_[r].stream));
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            ok(cudaSetDevice(static_cast<int>(r)));
            ok(cudaDeviceReset());
        }
        ok(cudaSetDevice(0));
    }

    // Small integers, whose sums are exact in bf16.
    static std::vector<float> input(std::uint32_t r) {
        std::vector<float> v(kSize);
        for (std::size_t i = 0; i < kSize; ++i) v[i] = static_cast<float>((i * 7 + r * 3) % 11);
        return v;
    }
    void enqueue(std::uint32_t r, bool two_shots) const {
        AllReduceParams p{};
        p.rank = r;
        p.n_ranks = static_cast<std::uint32_t>(ranks_.size());
        p.buffer_rows = p.max_rows = kRows;
        for (std::size_t i = 0; i < ranks_.size(); ++i) p.buffer[i] = ranks_[i].buffer;
        p.generation = ranks_[r].counters;
        p.failed = ranks_[r].counters + 2;
        p.n_rows = ranks_[r].counters + 3;
        p.partial = ranks_[r].in;
        p.x = ranks_[r].x;
        p.width = kWidth;
        p.two_shots = two_shots;
        p.timeout_ns = 1'000'000'000;
        all_reduce(p, ranks_[r].stream);
    }
    // x of rank r, and the rank it missed + 1.
    std::pair<std::vector<float>, std::uint32_t> result(std::uint32_t r) const {
        ok(cudaSetDevice(static_cast<int>(r)));
        return {download(ranks_[r].x, kSize), download(ranks_[r].counters + 2, 1)[0]};
    }
    cudaStream_t stream(std::uint32_t r) const { return ranks_[r].stream; }

  private:
    struct Rank {
        AllReduceBuffer buffer;
        std::uint32_t *counters;  // generation [2], failed, n_rows
        float *in, *x;
        cudaStream_t stream;
    };
    std::vector<Rank> ranks_;
};

TEST_CASE("cuda: all_reduce on 2, 4 and 8 devices from as many threads") {
    for (const std::uint32_t n : {2U, 4U, 8U}) {
        const Session session({.n_devices = static_cast<int>(n)});
        const World world(n);
        constexpr int kCalls = 3;
        {
            std::vector<std::jthread> threads;
            for (std::uint32_t r = 0; r < n; ++r) {
                threads.emplace_back([&world, r] {
                    ok(cudaSetDevice(static_cast<int>(r)));
                    for (int i = 0; i < kCalls; ++i) world.enqueue(r, i % 2 == 1);
                    ok(cudaStreamSynchronize(world.stream(r)));
                });
            }
        }
        std::vector<float> expected(World::kSize);
        for (std::uint32_t r = 0; r < n; ++r) {
            const std::vector<float> in = World::input(r);
            for (std::size_t i = 0; i < in.size(); ++i) expected[i] += kCalls * in[i];
        }
        for (std::uint32_t r = 0; r < n; ++r) {
            const auto [x, missed] = world.result(r);
            CHECK(missed == 0);
            CHECK(x == expected);
        }
    }
}

TEST_CASE("cuda: all_reduce without one of its ranks times out and names it") {
    const Session session({.n_devices = 2, .patience_s = 0.05});
    const World world(2);
    ok(cudaSetDevice(1));
    world.enqueue(1, false);
    ok(cudaStreamSynchronize(world.stream(1)));
    CHECK(world.result(1).second == 1 + 0);
}

}  // namespace
}  // namespace kimi::cudart::test
