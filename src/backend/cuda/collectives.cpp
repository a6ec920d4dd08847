#include "backend/cuda/collectives.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <thread>
#include <utility>

#include "backend/cuda/pass_tables.h"

namespace kimi::cuda {
namespace {

constexpr std::uint64_t kTimeoutNs = 20'000'000'000;
constexpr int kTimedSums = 5;
constexpr std::uint32_t kTriedRows = 3;
constexpr const char *kLookAt =
    " Look at the IOMMU and ACS settings of the host, Resizable BAR, and NCCL_P2P_LEVEL.";

// n calls of NCCL as one.
template <typename Call>
void grouped(const char *what, std::size_t n, const Call &call) {
    check(ncclGroupStart(), what);
    ncclResult_t status = ncclSuccess;
    for (std::size_t i = 0; i < n && status == ncclSuccess; ++i) status = call(i);
    const ncclResult_t end = ncclGroupEnd();  // also after a failure: the thread's group stays open
    check(status != ncclSuccess ? status : end, what);
}

}  // namespace

Group::Group(std::uint32_t n_ranks, std::shared_ptr<Communicator> ranks, Log log)
    : buffers(n_ranks), ranks_(std::move(ranks)), log_(std::move(log)) {
    if (n_ranks == 1) return;
    std::vector<int> devices(n_ranks);
    std::iota(devices.begin(), devices.end(), 0);
    std::vector<ncclComm_t> comms(n_ranks);
    check(ncclCommInitAll(comms.data(), static_cast<int>(n_ranks), devices.data()),
          "connecting the GPUs with NCCL");
    for (const ncclComm_t comm : comms) comms_.emplace_back(comm);
    has_peer_access_ = n_ranks <= kAllReduceMaxRanks && connect_peers();
    if (!has_peer_access_)
        this->log(cat("The GPUs do not reach each other's memory: sums go through NCCL.", kLookAt));
}

void Group::leave(std::uint32_t rank) {
    if (comm(rank) != nullptr) ncclCommAbort(comms_[rank].release());
}

void Group::halt() {
    for (const auto &halt_device : std::exchange(halts, {})) halt_device();
}

bool Group::connect_peers() const {
    for (int from = 0; from < static_cast<int>(n_ranks()); ++from) {
        check(cudaSetDevice(from), "choosing a GPU");
        for (int to = 0; to < static_cast<int>(n_ranks()); ++to) {
            int can = from == to;
            if (can) continue;
            cudaError_t status = cudaDeviceCanAccessPeer(&can, from, to);
            if (status == cudaSuccess && can) status = cudaDeviceEnablePeerAccess(to, 0);
            cudaGetLastError();
            if (!can || (status != cudaSuccess && status != cudaErrorPeerAccessAlreadyEnabled))
                return false;
        }
    }
    return true;
}

Collectives::Shared::Shared(std::uint32_t n_ranks, std::uint32_t width, cudaStream_t stream)
    : partial(all_reduce_elements(kMaxRows, width), "buffers of sums"),
      sum(all_reduce_elements(kMaxRows, width), "buffers of sums"),
      flags(all_reduce_flags(n_ranks, kMaxRows), "flags of sums"),
      counters(3, "flags of sums") {
    flags.zero(stream);
    counters.zero(stream);
}

Collectives::Collectives(std::shared_ptr<Group> group, std::uint32_t rank, std::uint32_t width,
                         cudaStream_t stream)
    : group_(std::move(group)),
      rank_(rank),
      width_(width),
      stream_(stream),
      alone_(1, width, stream),
      failed_(1, "flags of sums") {
    failed_.data()[0] = 0;
    if (group_->n_ranks() == 1) return;
    own_ = Shared(group_->n_ranks(), width, stream);
    group_->buffers[rank] = own_.buffer();
    x_ = {std::size_t{kMaxRows} * width, "buffers of sums"};
    y_ = {std::size_t{kMaxRows} * width, "buffers of sums"};
    n_rows_ = {1, "buffers of sums"};
    tried_ = {std::size_t{kTriedRows} * width, "buffers of sums"};
}

AllReduceParams Collectives::params(const Sum &sum, bool alone) const {
    const Shared &shared = alone ? alone_ : own_;
    AllReduceParams p = {};
    p.n_ranks = alone ? 1 : group_->n_ranks();
    p.rank = alone ? 0 : rank_;
    for (std::uint32_t i = 0; i < p.n_ranks; ++i)
        p.buffer[i] = alone ? alone_.buffer() : group_->buffers[i];
    p.buffer_rows = kMaxRows;
    p.generation = shared.counters.data();
    p.failed = shared.counters.data() + 2;
    p.partial = sum.partial;
    p.x = sum.x;
    p.norm = sum.norm;
    p.y = sum.y;
    p.n_rows = sum.n_rows;
    p.max_rows = sum.max_rows;
    p.width = sum.width;
    p.eps = sum.eps;
    p.timeout_ns = kTimeoutNs;
    return p;
}

void Collectives::add(const Sum &sum) {
    if (use_nccl_) return add(sum, Path::nccl);
    add(sum, sum.max_rows >= two_shots_from_ ? Path::two_shots : Path::one_shot);
}

void Collectives::add(const Sum &sum, Path path) {
    AllReduceParams p = params(sum, path == Path::nccl);
    if (path == Path::nccl && group_->n_ranks() > 1) {
        float *const partial = const_cast<float *>(sum.partial);
        check(ncclAllReduce(partial, partial, std::size_t{sum.max_rows} * sum.width, ncclFloat,
                            ncclSum, group_->comm(rank_), stream_),
              "a sum over the GPUs");
    }
    p.two_shots = path == Path::two_shots;
    all_reduce(p, stream_);
}

void Collectives::gather(const float *from, std::uint32_t part, std::uint32_t n_rows, float *to) {
    grouped("gathering rows", n_rows, [&](std::size_t r) {
        return ncclAllGather(from + r * part, to + r * part * group_->n_ranks(), part, ncclFloat,
                             group_->comm(rank_), stream_);
    });
}

void Collectives::exchange(std::initializer_list<Pieces> all) {
    const std::size_t n_ranks = group_->n_ranks();
    grouped("exchanging attention", all.size() * n_ranks, [&](std::size_t i) {
        const Pieces &pieces = all.begin()[i / n_ranks];
        const std::size_t rank = i % n_ranks, at = rank * pieces.stride;
        const int peer = static_cast<int>(rank);
        const ncclComm_t comm = group_->comm(rank_);
        const ncclResult_t sent =
            ncclSend(pieces.from + at, pieces.size, ncclFloat, peer, comm, stream_);
        return sent != ncclSuccess
                   ? sent
                   : ncclRecv(pieces.to + at, pieces.size, ncclFloat, peer, comm, stream_);
    });
}

// Not a blocking call of CUDA: that would never return where a rank does not come to NCCL.
template <typename Query>
void Collectives::poll(const Query &query) {
    for (;;) {
        const cudaError_t status = query();
        if (status != cudaErrorNotReady) return check(status, "computing");
        if (group_->ranks().is_aborted()) {
            leave_if_failed();
            fail(KIMI_DEVICE_LOST, "another GPU failed");
        }
        std::this_thread::yield();
    }
}

void Collectives::wait(const Event &event) {
    poll([&] { return cudaEventQuery(event); });
}

void Collectives::finish() {
    if (!use_nccl_)
        check(cudaMemcpyAsync(failed_.data(), own_.counters.data() + 2, sizeof(std::uint32_t),
                              cudaMemcpyDeviceToHost, stream_),
              "asking whether the GPUs met");
    poll([&] { return cudaStreamQuery(stream_); });
    if (failed_.data()[0] != 0)
        fail(KIMI_DEVICE_LOST, "GPU ", rank_, " waited for GPU ", failed_.data()[0] - 1,
             " in vain");
}

void Collectives::leave_if_failed() noexcept {
    if (group_->ranks().is_aborted()) group_->leave(rank_);
}

void Collectives::connect() {
    if (group_->n_ranks() == 1) return;
    slowest(0);  // all ranks have shown their buffers
    if (!sums_right(Path::nccl)) fail(KIMI_DEVICE_LOST, "GPU ", rank_, ": NCCL gives wrong sums");
    if (!group_->has_peer_access()) return;
    // All ranks decide alike, after each: none waits in a sum that another leaves out.
    const auto all_right = [this](Path path) { return slowest(sums_right(path) ? 0 : 1) == 0; };
    if (!all_right(Path::one_shot) || !all_right(Path::two_shots)) {
        if (rank_ == 0)
            group_->log(cat("Sums over peer memory are wrong or do not end: they go through NCCL.",
                            kLookAt));
        return;
    }
    constexpr std::array<std::uint32_t, 3> kRows = {1, 9, kMaxRows};
    double kernels = 0, nccl = 0;
    std::uint32_t two_shots_from = UINT32_MAX;
    for (const std::uint32_t rows : kRows) {
        const double one = slowest(microseconds(Path::one_shot, rows)),
                     two = slowest(microseconds(Path::two_shots, rows));
        if (two < one) two_shots_from = std::min(two_shots_from, rows);
        kernels += std::min(one, two);
        nccl += slowest(microseconds(Path::nccl, rows));
    }
    use_nccl_ = nccl < kernels;
    two_shots_from_ = two_shots_from;
    if (rank_ == 0)
        group_->log(cat("A sum over ", group_->n_ranks(), " GPUs, mean of 1, 9 and 64 rows: ",
                        kernels / kRows.size(), " us over peer memory, ", nccl / kRows.size(),
                        " us with NCCL.", use_nccl_ ? kLookAt : ""));
}

// The largest number of all ranks, for all.
double Collectives::slowest(double number) {
    double largest = 0;
    group_->ranks().exchange(rank_, &number, [&](std::span<void *const> all) {
        for (const void *of_rank : all)
            largest = std::max(largest, *static_cast<const double *>(of_rank));
    });
    // Others read this rank's number until they meet again.
    group_->ranks().exchange(rank_, nullptr, [](std::span<void *const>) {});
    return largest;
}

bool Collectives::sums_right(Path path) {
    const std::size_t n = tried_.size();
    std::vector<float> partial(n);
    for (std::size_t i = 0; i < n; ++i)
        partial[i] = static_cast<float>((i + rank_) % 13) - 6;  // exact in bf16, and their sums
    const std::uint32_t rows = kTriedRows;
    check(cudaMemcpyAsync(y_.data(), partial.data(), n * sizeof(float), cudaMemcpyHostToDevice,
                          stream_),
          "trying a sum");
    check(cudaMemsetAsync(x_.data(), 0, n * sizeof(float), stream_), "trying a sum");
    check(cudaMemcpyAsync(n_rows_.data(), &rows, sizeof rows, cudaMemcpyHostToDevice, stream_),
          "trying a sum");
    add({y_.data(), x_.data(), nullptr, nullptr, 0, n_rows_.data(), kTriedRows, width_}, path);
    check(
        cudaMemcpyAsync(tried_.data(), x_.data(), tried_.bytes(), cudaMemcpyDeviceToHost, stream_),
        "trying a sum");
    poll([&] { return cudaStreamQuery(stream_); });
    for (std::size_t i = 0; i < n; ++i) {
        float expected = 0;
        for (std::uint32_t rank = 0; rank < group_->n_ranks(); ++rank)
            expected += static_cast<float>((i + rank) % 13) - 6;
        if (tried_.data()[i] != expected) return false;
    }
    return true;
}

double Collectives::microseconds(Path path, std::uint32_t n_rows) {
    check(cudaMemcpyAsync(n_rows_.data(), &n_rows, sizeof n_rows, cudaMemcpyHostToDevice, stream_),
          "timing sums");
    check(cudaMemsetAsync(x_.data(), 0, x_.bytes(), stream_), "timing sums");
    check(cudaMemsetAsync(y_.data(), 0, y_.bytes(), stream_), "timing sums");
    Event begin(cudaEventDefault), end(cudaEventDefault);
    const Sum sum{y_.data(), x_.data(), nullptr, nullptr, 0, n_rows_.data(), n_rows, width_};
    add(sum, path);
    begin.record(stream_);
    for (int i = 0; i < kTimedSums; ++i) add(sum, path);
    end.record(stream_);
    poll([&] { return cudaStreamQuery(stream_); });
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "timing sums");
    return 1000.0 * static_cast<double>(milliseconds) / kTimedSums;
}

}  // namespace kimi::cuda
