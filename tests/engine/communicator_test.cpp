#include "backend/communicator.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels.h"
#include "check.h"

using namespace kimi;

namespace {

// Runs f(rank) on threads of their own.
template <typename F>
void on_ranks(std::uint32_t n, const F &f) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < n; ++rank) threads.emplace_back([&f, rank] { f(rank); });
    for (std::thread &thread : threads) thread.join();
}

// Others may read from a device until all are done.
struct Devices {
    std::array<std::unique_ptr<Device>, kMaxRanks> of_rank;

    Device *add(const std::shared_ptr<Communicator> &ranks, std::uint32_t rank) {
        of_rank[rank] = make_cpu_device(best_cpu_isa(), 1, ranks, rank);
        return of_rank[rank].get();
    }
};

DeviceLimits small_limits() {
    DeviceLimits limits;
    limits.rows = 8, limits.width = 320, limits.context = 64;
    limits.top_k = limits.n_experts = 1, limits.expert_width = limits.hidden = 32;
    limits.mla = {1, 16, 16, 16, 32, 1.0f};
    limits.kv = {KvType::f32, 1, 1, 32, 16};
    return limits;
}

// A pass of n rows, all of them picked.
void begin_rows(Device &device, std::uint32_t n) {
    static const std::uint32_t zeros[8] = {};
    const std::span<const std::uint32_t> rows = std::span(zeros).first(n);
    device.begin(DraftPlan{{}, rows, {}, rows});
}

std::uint16_t bf16_bits(int small) {  // of a small integer, exactly
    const float value = static_cast<float>(small);
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<std::uint16_t>(bits >> 16);
}

}  // namespace

TEST_CASE("communicator: sums are those of the ranks' order, on all ranks, in all columns") {
    constexpr std::uint32_t kRows = 3, kWidth = 304;  // 19 lanes do not divide
    for (const std::uint32_t n_ranks : {1U, 2U, 3U, 8U}) {
        CAPTURE(n_ranks);
        std::mt19937 random(n_ranks);
        std::normal_distribution<float> normal;
        std::vector<std::vector<float>> values(n_ranks, std::vector<float>(kRows * kWidth));
        for (auto &of_rank : values)
            for (float &x : of_rank) x = normal(random) * std::exp2(10 * normal(random));
        std::vector<float> expected = values[0];
        for (std::uint32_t rank = 1; rank < n_ranks; ++rank)
            for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += values[rank][i];

        const auto ranks = std::make_shared<Communicator>(n_ranks);
        Devices devices;
        std::vector<std::vector<float>> got(n_ranks);
        on_ranks(n_ranks, [&](std::uint32_t rank) {
            Device *const device = devices.add(ranks, rank);
            device->reserve(small_limits());
            const Buffer x = device->alloc(kRows, kWidth + 16);
            for (std::uint32_t r = 0; r < kRows; ++r)
                std::copy_n(&values[rank][r * kWidth], kWidth, x.row(r));
            const Buffer sum = device->alloc(kRows, kWidth);
            for (std::uint32_t r = 0; r < kRows; ++r) std::fill_n(sum.row(r), kWidth, 0.0f);
            begin_rows(*device, kRows);
            device->add_norm(sum, x, kWidth, {}, 0, {});
            got[rank].assign(sum.row(0), sum.row(kRows));
        });
        for (const auto &of_rank : got) CHECK(of_rank == expected);
    }
}

TEST_CASE("communicator: a product whose rows are split gives all ranks all columns") {
    constexpr std::uint32_t kRanks = 4, kIn = 32, kOut = 12, kRows = 2;
    std::vector<std::uint16_t> weight(kOut * kIn);
    for (std::size_t i = 0; i < weight.size(); ++i)
        weight[i] = bf16_bits(static_cast<int>(i * 7 % 11) - 5);
    const Matrix whole{WeightType::bf16, kOut, kIn,
                       reinterpret_cast<const std::byte *>(weight.data()), kIn * 2};
    const auto ranks = std::make_shared<Communicator>(kRanks);
    Devices devices;
    std::vector<std::vector<float>> got(kRanks);
    on_ranks(kRanks, [&](std::uint32_t rank) {
        Device *const device = devices.add(ranks, rank);
        device->reserve(small_limits());
        const Buffer in = device->alloc(kRows, kIn), out = device->alloc(kRows, kOut);
        for (std::uint32_t r = 0; r < kRows; ++r)
            for (std::uint32_t i = 0; i < kIn; ++i) in.row(r)[i] = static_cast<float>(r + i % 3);
        const Matrix part = whole.slice_rows(rank * kOut / kRanks, kOut / kRanks);
        begin_rows(*device, kRows);
        device->linear({{{&part, in, out, kOut}}}, Rows::all);
        got[rank].assign(out.row(0), out.row(kRows));
    });
    std::vector<float> expected;
    for (std::uint32_t r = 0; r < kRows; ++r)
        for (std::uint32_t o = 0; o < kOut; ++o) {
            int sum = 0;
            for (std::uint32_t i = 0; i < kIn; ++i)
                sum += static_cast<int>(r + i % 3) * (static_cast<int>((o * kIn + i) * 7 % 11) - 5);
            expected.push_back(static_cast<float>(sum));
        }
    for (const auto &of_rank : got) CHECK(of_rank == expected);
}

TEST_CASE("communicator: the best tokens of all ranks, lower token first on ties") {
    constexpr std::uint32_t kRanks = 3, kVocab = 5, kK = 6;
    const float logits[kRanks][kVocab] = {{1, 7, 2, 7, 0}, {7, -3, 9, 1, 1}, {2, 7, 9, 0, 1}};
    const std::int32_t best[kK] = {7, 12, 1, 3, 5, 11};
    double sum = 0;
    for (const auto &row : logits)
        for (const float x : row) sum += std::exp(double{x});
    const auto ranks = std::make_shared<Communicator>(kRanks);
    Devices devices;
    std::vector<std::vector<std::int32_t>> tokens(kRanks, std::vector<std::int32_t>(kK));
    std::vector<std::vector<double>> log_p(kRanks, std::vector<double>(kK));
    on_ranks(kRanks, [&](std::uint32_t rank) {
        Device *const device = devices.add(ranks, rank);
        device->reserve(small_limits());
        const Buffer x = device->alloc(1, kVocab);
        std::copy_n(logits[rank], kVocab, x.row(0));
        begin_rows(*device, 1);
        device->top_k(x, kVocab, kK, tokens[rank].data(), log_p[rank].data());
    });
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        for (std::uint32_t i = 0; i < kK; ++i) {
            CHECK(tokens[rank][i] == best[i]);
            const double logit = logits[best[i] / kVocab][best[i] % kVocab];
            CHECK(log_p[rank][i] == doctest::Approx(logit - std::log(sum)).epsilon(1e-12));
        }
}

TEST_CASE("communicator: an abort ends the exchanges that wait and those to come") {
    Communicator ranks(3);
    std::atomic<int> n_lost{0};
    const auto expect_lost = [&](std::uint32_t rank) {
        const Error error = test::error_of([&] { ranks.exchange(rank, nullptr, [](auto) {}); });
        n_lost += error.status == KIMI_DEVICE_LOST;
    };
    std::thread waits([&] { expect_lost(0); });
    std::thread aborts([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ranks.abort();
        expect_lost(1);
    });
    waits.join();
    aborts.join();
    expect_lost(2);
    CHECK(n_lost == 3);
}
