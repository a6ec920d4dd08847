// What the GPUs of a deployment do together: sums over them, and rows that each has a part of.
//
// Sums run as kernels over peer memory where every GPU reaches every other one and that is faster
// than NCCL, measured once; as NCCL otherwise. One of the two for all sums, so that a row's bits do
// not depend on how many rows there are.
#pragma once

#include <nccl.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "backend/communicator.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/stream.h"
#include "backend/device.h"
#include "kernels/all_reduce.h"

namespace kimi::cuda {

using Log = std::function<void(const std::string &line)>;

// What the devices of one deployment share.
class Group {
  public:
    // Devices 0 to n_ranks - 1: connects NCCL and, where the hardware allows it, peer memory.
    Group(std::uint32_t n_ranks, std::shared_ptr<Communicator> ranks, Log log);
    Group(const Group &) = delete;

    std::uint32_t n_ranks() const { return static_cast<std::uint32_t>(buffers.size()); }
    Communicator &ranks() const { return *ranks_; }
    ncclComm_t comm(std::uint32_t rank) const {
        return comms_.empty() ? nullptr : comms_[rank].get();
    }
    // Ends what the rank still waits for from the others. On its own thread.
    void leave(std::uint32_t rank);
    bool has_peer_access() const { return has_peer_access_; }
    void log(const std::string &line) const {
        if (log_) log_(line);
    }

    // Ends the work of all GPUs: called before one of them gives back memory that others may read.
    void halt();

    std::vector<AllReduceBuffer> buffers;      // of every rank, set by each before they meet
    std::vector<std::function<void()>> halts;  // of every device: ends its work, and waits

  private:
    struct DestroyComm {
        void operator()(ncclComm_t comm) const { ncclCommDestroy(comm); }
    };
    using Comm = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, DestroyComm>;

    bool connect_peers() const;

    std::shared_ptr<Communicator> ranks_;
    Log log_;
    std::vector<Comm> comms_;  // none for a single rank
    bool has_peer_access_ = false;
};

// x += sum over the ranks of partial; y = norm(x) where norm is not null.
struct Sum {
    const float *partial;
    float *x;
    const bf16 *norm;
    bf16 *y;
    float eps;
    const std::uint32_t *n_rows;  // on the device
    std::uint32_t max_rows, width;
};

// Floats that every rank sends to every rank, itself too.
struct Pieces {
    const float *from;  // [ranks, stride]: rank r gets the first `size` of the r-th
    float *to;          // [ranks, stride]: those from rank r come to the r-th
    std::size_t size, stride;
};

class Collectives {
  public:
    // For sums of at most kMaxRows rows of `width`.
    Collectives(std::shared_ptr<Group> group, std::uint32_t rank, std::uint32_t width,
                cudaStream_t stream);

    // On all ranks at once, each on its own thread: tries every path with data, and times it.
    void connect();

    std::uint32_t n_ranks() const { return group_->n_ranks(); }
    void add(const Sum &sum);
    // to [n_rows, ranks * part]: in each row the parts of all ranks, of which this one has `from`
    // [n_rows, part].
    void gather(const float *from, std::uint32_t part, std::uint32_t n_rows, float *to);
    void exchange(std::initializer_list<Pieces> pieces);
    // Waits for the stream, or for the event in it. Throws KIMI_DEVICE_LOST where another rank
    // failed, or did not come to a sum: nobody waits for it longer.
    void finish();
    void wait(const Event &event);
    // Leaves the others where one of them failed: the stream ends then.
    void leave_if_failed() noexcept;

  private:
    enum class Path : std::uint8_t { one_shot, two_shots, nccl };

    template <typename Query>
    void poll(const Query &query);
    AllReduceParams params(const Sum &sum, bool alone) const;
    void add(const Sum &sum, Path path);
    bool sums_right(Path path);
    double microseconds(Path path, std::uint32_t n_rows);
    double slowest(double microseconds);

    struct Shared {
        Shared() = default;
        Shared(std::uint32_t n_ranks, std::uint32_t width, cudaStream_t stream);
        AllReduceBuffer buffer() const { return {partial.data(), sum.data(), flags.data()}; }

        DeviceArray<bf16> partial, sum;
        DeviceArray<std::uint32_t> flags, counters;  // counters: generation[2], failed
    };

    std::shared_ptr<Group> group_;
    std::uint32_t rank_, width_;
    cudaStream_t stream_;
    Shared own_, alone_;  // among all ranks; of sums that need no other rank
    DeviceArray<float> x_, y_;
    DeviceArray<std::uint32_t> n_rows_;
    PinnedArray<std::uint32_t> failed_;
    PinnedArray<float> tried_;  // a copy to other memory would wait for ranks that do not come
    bool use_nccl_ = true;
    std::uint32_t two_shots_from_ = UINT32_MAX;  // rows
};

}  // namespace kimi::cuda
