#include <nccl.h>

#include <cstring>
#include <thread>

#include "base/bf16.h"
#include "tests/cudart/testing.h"

namespace kimi::cudart::test {
namespace {

void fine(ncclResult_t got) {
    INFO(std::string(ncclGetErrorString(got)), ": ", last_fault());
    CHECK(got == ncclSuccess);
}

// One thread for each of n devices.
template <typename F>
void on_ranks(int n, F &&body) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < n; ++rank) {
        threads.emplace_back([&body, rank] {
            ok(cudaSetDevice(rank));
            body(rank);
        });
    }
}

// A communicator of n ranks, with a stream of each.
struct Team {
    std::vector<ncclComm_t> comm;
    std::vector<cudaStream_t> stream;

    explicit Team(int n) : comm(static_cast<std::size_t>(n)), stream(static_cast<std::size_t>(n)) {
        fine(ncclCommInitAll(comm.data(), n, nullptr));
        for (int r = 0; r < n; ++r) {
            ok(cudaSetDevice(r));
            stream[static_cast<std::size_t>(r)] = new_stream();
        }
        ok(cudaSetDevice(0));
    }
    // Resets the devices, too.
    void free() {
        for (const ncclComm_t c : comm)
            if (c != nullptr) fine(ncclCommDestroy(c));
        for (std::size_t r = 0; r < comm.size(); ++r) {
            ok(cudaSetDevice(static_cast<int>(r)));
            ok(cudaDeviceReset());
        }
        ok(cudaSetDevice(0));
    }
};

template <typename T>
struct TypeOf;
template <>
struct TypeOf<float> {
    static constexpr ncclDataType_t value = ncclFloat32;
};
template <>
struct TypeOf<std::int32_t> {
    static constexpr ncclDataType_t value = ncclInt32;
};
template <>
struct TypeOf<std::uint8_t> {
    static constexpr ncclDataType_t value = ncclUint8;
};
template <>
struct TypeOf<bf16> {
    static constexpr ncclDataType_t value = ncclBfloat16;
};

// What rank r sends: small numbers, whose sums are exact.
template <typename T>
T sent(int rank, std::size_t i) {
    const int v = (static_cast<int>(i) * 5 + rank * 3) % 9;
    if constexpr (std::is_same_v<T, bf16>) {
        return to_bf16(static_cast<float>(v));
    } else {
        return static_cast<T>(v);
    }
}
template <typename T>
std::vector<T> sent(int rank, std::size_t first, std::size_t n) {
    std::vector<T> v;
    for (std::size_t i = 0; i < n; ++i) v.push_back(sent<T>(rank, first + i));
    return v;
}

template <typename T>
void check_all_calls(int rank, int n_ranks, ncclComm_t comm, cudaStream_t stream) {
    constexpr std::size_t kN = 37;
    constexpr ncclDataType_t kType = TypeOf<T>::value;
    const auto n = static_cast<std::size_t>(n_ranks);
    T *in = on_device(sent<T>(rank, 0, kN)), *sum = on_device<T>(kN), *all = on_device<T>(n * kN);
    T *shared = on_device(sent<T>(rank, 100, kN));
    const auto mine = static_cast<std::size_t>(rank) * kN;
    fine(ncclAllReduce(in, sum, kN, kType, ncclSum, comm, stream));
    ok(cudaMemcpyAsync(all + mine, in, kN * sizeof(T), cudaMemcpyDeviceToDevice, stream));
    fine(ncclAllGather(all + mine, all, kN, kType, comm, stream));  // in place
    fine(ncclBroadcast(shared, shared, kN, kType, n_ranks - 1, comm, stream));
    ok(cudaStreamSynchronize(stream));

    std::vector<T> gathered;
    for (int r = 0; r < n_ranks; ++r)
        for (const T &v : sent<T>(r, 0, kN)) gathered.push_back(v);
    std::vector<T> total(kN);
    for (std::size_t i = 0; i < kN; ++i) {
        int v = 0;
        for (int r = 0; r < n_ranks; ++r) v += static_cast<int>(sent<std::int32_t>(r, i));
        total[i] = std::is_same_v<T, bf16> ? static_cast<T>(to_bf16(static_cast<float>(v)))
                                           : static_cast<T>(v);
    }
    CHECK(download(sum, kN) == total);
    CHECK(download(all, n * kN) == gathered);
    CHECK(download(shared, kN) == sent<T>(n_ranks - 1, 100, kN));
    for (T *p : {in, sum, all, shared}) ok(cudaFree(p));
}

TEST_CASE("cuda: NCCL from as many threads as ranks") {
    for (const int n : {1, 2, 4, 8}) {
        const Session session({.n_devices = n});
        ncclUniqueId id;
        fine(ncclGetUniqueId(&id));
        on_ranks(n, [&](int rank) {
            ncclComm_t comm = nullptr;
            fine(ncclCommInitRank(&comm, n, id, rank));
            const cudaStream_t stream = new_stream();
            check_all_calls<float>(rank, n, comm, stream);
            check_all_calls<std::int32_t>(rank, n, comm, stream);
            check_all_calls<std::uint8_t>(rank, n, comm, stream);
            check_all_calls<bf16>(rank, n, comm, stream);
            ncclResult_t error = ncclInternalError;
            fine(ncclCommGetAsyncError(comm, &error));
            CHECK(error == ncclSuccess);
            ok(cudaStreamDestroy(stream));
            fine(ncclCommDestroy(comm));
        });
    }
}

// Rank r sends 2 numbers to each rank, itself too: 100 r + 10 peer + {0, 1}.
TEST_CASE("cuda: a group of sends and receives brings each rank the parcels of all") {
    for (const int n : {2, 8}) {
        const Session session({.n_devices = n});
        Team team(n);
        on_ranks(n, [&](int rank) {
            const auto r = static_cast<std::size_t>(rank);
            std::vector<int> parcels, expected;
            for (int peer = 0; peer < n; ++peer)
                for (int i = 0; i < 2; ++i) {
                    parcels.push_back(100 * rank + 10 * peer + i);
                    expected.push_back(100 * peer + 10 * rank + i);
                }
            int *in = on_device(parcels), *out = on_device<int>(parcels.size());
            fine(ncclGroupStart());
            for (int peer = 0; peer < n; ++peer) {
                fine(ncclSend(in + 2 * peer, 2, ncclInt32, peer, team.comm[r], team.stream[r]));
                fine(ncclRecv(out + 2 * peer, 2, ncclInt32, peer, team.comm[r], team.stream[r]));
            }
            fine(ncclGroupEnd());
            ok(cudaStreamSynchronize(team.stream[r]));
            CHECK(download(out, parcels.size()) == expected);
        });
        team.free();
    }
}

TEST_CASE("cuda: a parcel that the other rank does not expect breaks the devices") {
    const Session session({.n_devices = 2});
    Team team(2);
    for (int rank = 0; rank < 2; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        ok(cudaSetDevice(rank));
        int *p = on_device(std::vector<int>{1, 2, 3, 4});
        CHECK(ncclSend(p, 1, ncclInt32, 0, team.comm[r], team.stream[r]) == ncclInvalidUsage);
        fine(ncclGroupStart());
        fine(ncclSend(p, 1 + r, ncclInt32, 1 - rank, team.comm[r], team.stream[r]));
        fine(ncclRecv(p + 2, 1, ncclInt32, 1 - rank, team.comm[r], team.stream[r]));
        fine(ncclGroupEnd());
    }
    ok(cudaSetDevice(0));
    expect(cudaErrorLaunchFailure, cudaStreamSynchronize(team.stream[0]));
    CHECK(contains(last_fault(), "rank 0 receives 4 bytes from rank 1, which sends 8"));
    team.free();
}

TEST_CASE("cuda: sums are made in the order of ranks") {
    const Session session({.n_devices = 3});
    Team team(3);
    const std::vector<float> value = {1e8F, -1e8F, 1};
    float *p[3];
    for (int r = 0; r < 3; ++r) {
        ok(cudaSetDevice(r));
        p[r] = on_device(std::vector<float>{value[static_cast<std::size_t>(r)]});
    }
    fine(ncclGroupStart());
    for (std::size_t r : {2U, 0U, 1U})
        fine(ncclAllReduce(p[r], p[r], 1, ncclFloat32, ncclSum, team.comm[r], team.stream[r]));
    fine(ncclGroupEnd());
    for (int r = 0; r < 3; ++r) {
        ok(cudaSetDevice(r));
        ok(cudaStreamSynchronize(team.stream[static_cast<std::size_t>(r)]));
        CHECK(download(p[r], 1)[0] == 1);  // (1e8 - 1e8) + 1
    }
    team.free();
}

TEST_CASE("cuda: NCCL calls are captured, and every replay meets those of the other ranks") {
    const Session session({.n_devices = 2});
    Team team(2);
    int *p[2];
    for (int r = 0; r < 2; ++r) {
        ok(cudaSetDevice(r));
        p[r] = on_device(std::vector<int>{r + 1, 0});
    }
    on_ranks(2, [&](int rank) {
        const auto r = static_cast<std::size_t>(rank);
        ok(cudaStreamBeginCapture(team.stream[r], cudaStreamCaptureModeThreadLocal));
        fine(ncclAllReduce(p[r], p[r] + 1, 1, ncclInt32, ncclSum, team.comm[r], team.stream[r]));
        add(p[r] + 1, p[r], rank, 1, team.stream[r]);
        cudaGraph_t graph = nullptr;
        ok(cudaStreamEndCapture(team.stream[r], &graph));
        cudaGraphExec_t exec = nullptr;
        ok(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 3; ++i) ok(cudaGraphLaunch(exec, team.stream[r]));
        ok(cudaStreamSynchronize(team.stream[r]));
        ok(cudaGraphExecDestroy(exec));
        ok(cudaGraphDestroy(graph));
    });
    // 1 + 2 = 3; 3 + 4 = 7; 7 + 8 = 15
    ok(cudaSetDevice(0));
    CHECK(download(p[0], 2) == std::vector<int>{15, 15});
    ok(cudaSetDevice(1));
    CHECK(download(p[1], 2) == std::vector<int>{16, 15});
    team.free();
}

TEST_CASE("cuda: a rank that does not come is a deadlock, which is told") {
    const Session session({.n_devices = 3, .patience_s = 0.05});
    Team team(3);
    ok(cudaSetDevice(1));
    int *p = on_device(std::vector<int>{1});
    fine(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, team.comm[1], team.stream[1]));
    expect(cudaErrorLaunchTimeout, cudaStreamSynchronize(team.stream[1]));
    CHECK(contains(last_fault(), "ncclAllReduce of rank 1 on device 1: waits for ranks 0, 2"));
    ncclResult_t error = ncclSuccess;
    fine(ncclCommGetAsyncError(team.comm[0], &error));
    CHECK(error == ncclRemoteError);
    team.free();
    ncclUniqueId id;
    fine(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRank(&comm, 2, id, 0) == ncclSystemError);
    CHECK(contains(last_fault(), "only 1 of 2 ranks"));
    fine(ncclCommDestroy(comm));
}

TEST_CASE("cuda: abort ends a wait for other ranks") {
    const Session session({.n_devices = 2});
    Team team(2);
    int *p = on_device(std::vector<int>{1});
    fine(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, team.comm[0], team.stream[0]));
    fine(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, team.comm[0], team.stream[0]));
    {
        const std::jthread waiting([&] { ok(cudaStreamSynchronize(team.stream[0])); });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        fine(ncclCommAbort(std::exchange(team.comm[0], nullptr)));
    }
    team.free();
}

TEST_CASE("cuda: ranks that call different things break their devices") {
    const Session session({.n_devices = 2});
    Team team(2);
    for (int rank = 0; rank < 2; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        ok(cudaSetDevice(rank));
        int *p = on_device(std::vector<int>{1, 2});
        fine(ncclAllReduce(p, p, r + 1, ncclInt32, ncclSum, team.comm[r], team.stream[r]));
    }
    for (int rank = 0; rank < 2; ++rank) {
        ok(cudaSetDevice(rank));
        expect(cudaErrorLaunchFailure,
               cudaStreamSynchronize(team.stream[static_cast<std::size_t>(rank)]));
    }
    CHECK(contains(last_fault(), "rank 1 calls ncclAllReduce of 2 elements"));
    team.free();
}

TEST_CASE("cuda: NCCL refuses ranks, buffers and streams that do not fit") {
    const Session session({.n_devices = 2});
    Team team(2);
    int *p = on_device(std::vector<int>{1, 2}), host = 0;
    const auto reduce = [&](const void *in, void *out, std::size_t n, std::size_t stream) {
        return ncclAllReduce(in, out, n, ncclInt32, ncclSum, team.comm[0], team.stream[stream]);
    };
    CHECK(reduce(p, p, 3, 0) == ncclInvalidArgument);
    CHECK(reduce(&host, p, 1, 0) == ncclInvalidArgument);
    CHECK(reduce(p, p, 1, 1) == ncclInvalidArgument);
    CHECK(ncclAllGather(p, p, 2, ncclInt32, team.comm[0], team.stream[0]) == ncclInvalidArgument);
    CHECK(ncclBroadcast(p, p, 1, ncclInt32, 2, team.comm[0], team.stream[0]) ==
          ncclInvalidArgument);
    CHECK(ncclAllReduce(p, p, 1, ncclFloat64, ncclSum, team.comm[0], team.stream[0]) ==
          ncclInvalidArgument);
    fail_nth("ncclAllReduce", 1, ncclInternalError);
    CHECK(reduce(p, p, 1, 0) == ncclInternalError);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
    const int same[] = {1, 1};
    ncclComm_t comms[2] = {};
    CHECK(ncclCommInitAll(comms, 2, same) == ncclInvalidUsage);
    CHECK(ncclCommDestroy(comms[0]) == ncclInvalidArgument);
    team.free();
}

}  // namespace
}  // namespace kimi::cudart::test
