// Sums over the GPUs of this machine that reach each other's memory, or over one alone.
#include <cmath>
#include <memory>

#include "base/error.h"
#include "kernels/all_reduce.h"
#include "tools/kernel-bench/cases.h"

namespace kimi::bench {
namespace {

constexpr std::uint32_t kHidden = 7168, kMaxRows = 64;
constexpr int kLaunches = 24, kRepeats = 8;

void choose(std::uint32_t gpu) {
    check(cudaSetDevice(static_cast<int>(gpu)), "cudaSetDevice");
}

bool reach_each_other(std::uint32_t n) {
    for (std::uint32_t from = 0; from < n; ++from) {
        choose(from);
        for (std::uint32_t to = 0; to < n; ++to) {
            if (from == to) continue;
            const cudaError_t status = cudaDeviceEnablePeerAccess(static_cast<int>(to), 0);
            cudaGetLastError();
            if (status != cudaSuccess && status != cudaErrorPeerAccessAlreadyEnabled) return false;
        }
    }
    return true;
}

// One GPU's part, on that GPU.
struct Rank {
    explicit Rank(std::uint32_t n_ranks)
        : partial(2 * all_reduce_elements(kMaxRows, kHidden)),
          sum(2 * all_reduce_elements(kMaxRows, kHidden)),
          flags(4 * all_reduce_flags(n_ranks, kMaxRows)) {
        check(cudaStreamCreate(&stream), "cudaStreamCreate");
        check(cudaEventCreate(&begin), "cudaEventCreate");
        check(cudaEventCreate(&end), "cudaEventCreate");
    }
    Rank(const Rank &) = delete;
    ~Rank() {
        cudaGraphExecDestroy(graph);
        cudaEventDestroy(begin);
        cudaEventDestroy(end);
        cudaStreamDestroy(stream);
    }

    Memory partial, sum, flags;
    Memory counters{12}, n_rows{4}, in{4 * kMaxRows * kHidden}, x{4 * kMaxRows * kHidden};
    Memory norm{2 * kHidden}, y{2 * kMaxRows * kHidden};
    cudaStream_t stream = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    cudaGraphExec_t graph = nullptr;
};
using Ranks = std::vector<std::unique_ptr<Rank>>;

AllReduceParams params(const Ranks &ranks, std::uint32_t rank, std::uint32_t rows, bool two_shots) {
    const Rank &own = *ranks[rank];
    AllReduceParams p = {};
    for (std::size_t i = 0; i < ranks.size(); ++i)
        p.buffer[i] = {ranks[i]->partial.as<bf16>(), ranks[i]->sum.as<bf16>(),
                       ranks[i]->flags.as<std::uint32_t>()};
    p.rank = rank;
    p.n_ranks = static_cast<std::uint32_t>(ranks.size());
    p.buffer_rows = kMaxRows;
    p.generation = own.counters.as<std::uint32_t>();
    p.failed = own.counters.as<std::uint32_t>() + 2;
    p.partial = own.in.as<float>();
    p.x = own.x.as<float>();
    p.norm = own.norm.as<bf16>();
    p.y = own.y.as<bf16>();
    p.n_rows = own.n_rows.as<std::uint32_t>();
    p.max_rows = rows;
    p.width = kHidden;
    p.eps = 1e-5F;
    p.two_shots = two_shots;
    p.timeout_ns = 1'000'000'000;
    return p;
}

void capture(const Ranks &ranks, std::uint32_t rank, std::uint32_t rows, bool two_shots) {
    Rank &own = *ranks[rank];
    choose(rank);
    check(cudaMemcpy(own.n_rows.as<void>(), &rows, sizeof rows, cudaMemcpyHostToDevice), "copy");
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kLaunches; ++i)
        all_reduce(params(ranks, rank, rows, two_shots), own.stream);
    check(cudaStreamEndCapture(own.stream, &graph), "capture");
    cudaGraphExecDestroy(own.graph);
    check(cudaGraphInstantiate(&own.graph, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
}

// One run of the graphs of all ranks, until the last one ends.
float milliseconds(const Ranks &ranks) {
    for (std::uint32_t r = 0; r < ranks.size(); ++r) {
        choose(r);
        check(cudaEventRecord(ranks[r]->begin, ranks[r]->stream), "cudaEventRecord");
        check(cudaGraphLaunch(ranks[r]->graph, ranks[r]->stream), "cudaGraphLaunch");
        check(cudaEventRecord(ranks[r]->end, ranks[r]->stream), "cudaEventRecord");
    }
    float shortest = INFINITY;  // of a rank: the one that started last did not wait for others
    for (const auto &rank : ranks) {
        float ms = 0;
        check(cudaEventSynchronize(rank->end), "all_reduce");
        check(cudaEventElapsedTime(&ms, rank->begin, rank->end), "cudaEventElapsedTime");
        shortest = std::min(shortest, ms);
    }
    return shortest;
}

void check_met(const Rank &rank) {
    std::uint32_t failed = 0;
    check(cudaMemcpy(&failed, rank.counters.as<std::uint32_t>() + 2, sizeof failed,
                     cudaMemcpyDeviceToHost),
          "copy");
    if (failed != 0) fail(KIMI_DEVICE_LOST, "a GPU waited for GPU ", failed - 1, " in vain");
}

void bench(const Ranks &ranks, std::uint32_t rows, bool two_shots, double copy_bytes_per_s) {
    for (std::uint32_t r = 0; r < ranks.size(); ++r) capture(ranks, r, rows, two_shots);
    float best = INFINITY;
    for (int i = 0; i < kRepeats; ++i) best = std::min(best, milliseconds(ranks));
    for (std::uint32_t r = 0; r < ranks.size(); ++r) check_met(*ranks[r]);
    // Over the links, of each GPU; alone, what its own memory moves.
    const double n = static_cast<double>(ranks.size()), reads = two_shots ? 2 * (n - 1) / n : n - 1;
    report({cat("all_reduce, ", ranks.size(), " GPUs, ", two_shots ? "two shots" : "one shot", ", ",
                rows, " rows"),
            rows * kHidden * (ranks.size() > 1 ? 2 * reads : 16),
            0,
            1,
            {}},
           1e3 * best / kLaunches, copy_bytes_per_s);
}

}  // namespace

void bench_sums(const Machine &machine) {
    int n_gpus = 0;
    check(cudaGetDeviceCount(&n_gpus), "cudaGetDeviceCount");
    std::uint32_t n_ranks = kAllReduceMaxRanks;
    while (n_ranks > static_cast<std::uint32_t>(n_gpus) || !reach_each_other(n_ranks)) n_ranks /= 2;
    Ranks ranks;
    for (std::uint32_t r = 0; r < n_ranks; ++r) {
        choose(r);
        ranks.push_back(std::make_unique<Rank>(n_ranks));
    }
    for (const std::uint32_t rows : {1U, 9U, 36U, 64U})
        for (const bool two_shots : {false, true})
            bench(ranks, rows, two_shots, machine.copy_bytes_per_s);
    choose(0);
}

}  // namespace kimi::bench
