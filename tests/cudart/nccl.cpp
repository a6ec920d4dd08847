// NCCL: communicators of the ranks of one process.
#include <nccl.h>

#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "base/error.h"
#include "tests/cudart/collective.h"
#include "tests/cudart/runtime.h"

using namespace kimi;
using namespace kimi::cudart;

struct ncclComm {
    std::shared_ptr<Ranks> ranks;
    std::size_t rank;

    Ranks::Rank &mine() const { return ranks->rank[rank]; }
};

namespace {

// Calls between ncclGroupStart and ncclGroupEnd.
struct Group {
    unsigned depth = 0;
    std::vector<std::function<ncclResult_t(Runtime &, Lock &)>> calls;
    // Sends and receives of a rank.
    std::map<std::pair<ncclComm_t, cudaStream_t>, Collective> parcels;
};
Group &group() {
    thread_local Group mine;
    return mine;
}

template <typename Body>
ncclResult_t call_nccl(const char *name, Body &&body) {
    Runtime &r = runtime();
    Lock lock(r.mutex());
    const int injected = r.count(name);
    return injected != 0 ? static_cast<ncclResult_t>(injected) : body(r, lock);
}

// Now, or at the end of the group.
ncclResult_t now_or_later(Runtime &r, Lock &lock,
                          std::function<ncclResult_t(Runtime &, Lock &)> what) {
    if (group().depth == 0) return what(r, lock);
    group().calls.push_back(std::move(what));
    return ncclSuccess;
}

ncclResult_t refused(Runtime &r, ncclResult_t error, const std::string &why) {
    r.fault = why;
    return error;
}

// ---- communicators

ncclResult_t join(Runtime &r, const std::shared_ptr<Ranks> &ranks, int rank, int device,
                  ncclComm_t *out) {
    if (rank < 0 || static_cast<std::size_t>(rank) >= ranks->rank.size() || !r.has(device)) {
        return refused(r, ncclInvalidArgument, cat("no rank ", rank, " or device ", device));
    }
    for (const Ranks::Rank &other : ranks->rank) {
        if (other.device != device) continue;
        return refused(r, ncclInvalidUsage, cat("two ranks on device ", device));
    }
    auto comm = std::make_unique<ncclComm>(ncclComm{ranks, static_cast<std::size_t>(rank)});
    if (comm->mine().device >= 0) {
        return refused(r, ncclInvalidUsage, cat("rank ", rank, " comes twice"));
    }
    comm->mine().device = device;
    ++ranks->n_joined;
    r.ranks_joined.notify_all();
    r.communicators.insert(comm.get());
    *out = comm.release();
    return ncclSuccess;
}

// Whether there was such a communicator.
bool forget(Runtime &r, ncclComm_t comm) {
    if (r.communicators.erase(comm) == 0) return false;
    delete comm;
    return true;
}

ncclResult_t wait_for_ranks(Runtime &r, Lock &lock, const std::shared_ptr<Ranks> &ranks) {
    const bool all = r.ranks_joined.wait_for(lock, std::chrono::duration<double>(r.patience_s()),
                                             [&] { return ranks->n_joined == ranks->rank.size(); });
    if (all) return ncclSuccess;
    return refused(r, ncclSystemError,
                   cat("only ", ranks->n_joined, " of ", ranks->rank.size(), " ranks came"));
}

std::uint64_t number_of(const ncclUniqueId &id) {
    std::uint64_t n = 0;
    std::memcpy(&n, id.internal, sizeof n);
    return n;
}

// ---- calls

ncclResult_t enqueue(Runtime &r, const std::shared_ptr<const Collective> &c, cudaStream_t handle) {
    Stream *stream = r.find(handle);
    if (stream == nullptr) return ncclInvalidArgument;
    const int device = c->ranks->rank[c->rank].device;
    if (stream->device != device) {
        return refused(
            r, ncclInvalidArgument,
            cat("rank ", c->rank, " is on device ", device, ", its stream on ", stream->device));
    }
    const cudaError_t status =
        r.append(*stream, {.kind = Task::Kind::kCollective,
                           .name = cat(name_of(c->kind), " of rank ", c->rank),
                           .collective = c});
    return status == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

bool is_usable(const Pointer &p, std::size_t bytes, int device) {
    return p.memory != nullptr && !p.memory->of_host && p.holds(bytes) &&
           (p.memory->visible_to >> device & 1U) != 0;
}

ncclResult_t collective(const char *name, Collective c, ncclComm_t comm, cudaStream_t stream) {
    return call_nccl(name, [&](Runtime &r, Lock &lock) {
        if (r.communicators.count(comm) == 0) return ncclInvalidArgument;
        c.ranks = comm->ranks;
        c.rank = comm->rank;
        const int n_ranks = static_cast<int>(c.ranks->rank.size());
        if (bytes_of(c.type) == 0 || c.root < 0 || c.root >= n_ranks) {
            return refused(r, ncclInvalidArgument, cat(name, ": type or root"));
        }
        const int device = comm->mine().device;
        if ((c.has_input() && !is_usable(c.send, c.sent_bytes(), device)) ||
            !is_usable(c.recv, c.received_bytes(), device)) {
            return refused(
                r, ncclInvalidArgument,
                cat(name, ": a buffer is not inside memory in reach of device ", device));
        }
        return now_or_later(
            r, lock,
            [stream, shared = std::make_shared<const Collective>(c)](Runtime &runtime, Lock &) {
                return enqueue(runtime, shared, stream);
            });
    });
}

// Only inside a group, to which every rank of the communicator comes with one of its own.
ncclResult_t add_parcel(const char *name, std::vector<Parcel> Collective::*list, const void *at,
                        std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                        cudaStream_t stream) {
    return call_nccl(name, [&](Runtime &r, Lock &) {
        if (r.communicators.count(comm) == 0) return ncclInvalidArgument;
        if (group().depth == 0) return refused(r, ncclInvalidUsage, cat(name, ": not in a group"));
        const int n_ranks = static_cast<int>(comm->ranks->rank.size());
        if (bytes_of(type) == 0 || peer < 0 || peer >= n_ranks)
            return refused(r, ncclInvalidArgument, cat(name, ": type or peer"));
        const Parcel parcel{static_cast<std::size_t>(peer), at, count * bytes_of(type)};
        const int device = comm->mine().device;
        if (!is_usable(parcel.at, parcel.bytes, device))
            return refused(
                r, ncclInvalidArgument,
                cat(name, ": a buffer is not inside memory in reach of device ", device));
        Collective &mine = group().parcels[{comm, stream}];
        mine.ranks = comm->ranks;
        mine.rank = comm->rank;
        mine.kind = Collective::Kind::kParcels;
        (mine.*list).push_back(parcel);
        return ncclSuccess;
    });
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    return call_nccl(__func__, [&](Runtime &r, Lock &) {
        const std::uint64_t n = ++r.n_unique_ids;
        *id = {};
        std::memcpy(id->internal, &n, sizeof n);
        return ncclSuccess;
    });
}

// Returns when all ranks have come, in a group at its end.
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank) {
    return call_nccl(__func__, [&](Runtime &r, Lock &lock) {
        if (n_ranks <= 0) return ncclInvalidArgument;
        auto &ranks = r.forming[number_of(id)];
        if (ranks == nullptr) ranks = std::make_shared<Ranks>(static_cast<std::size_t>(n_ranks));
        const auto joined = ranks;
        if (joined->rank.size() != static_cast<std::size_t>(n_ranks)) return ncclInvalidArgument;
        const int device = Runtime::of_thread().device;
        if (joined->n_joined + 1 == joined->rank.size()) r.forming.erase(number_of(id));
        if (const auto status = join(r, joined, rank, device, comm); status != ncclSuccess) {
            return status;
        }
        return now_or_later(r, lock, [joined](Runtime &runtime, Lock &l) {
            return wait_for_ranks(runtime, l, joined);
        });
    });
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices) {
    return call_nccl(__func__, [&](Runtime &r, Lock &) {
        if (n <= 0) return ncclInvalidArgument;
        const auto ranks = std::make_shared<Ranks>(static_cast<std::size_t>(n));
        for (int i = 0; i < n; ++i) {
            const int device = devices != nullptr ? devices[i] : i;
            const ncclResult_t status = join(r, ranks, i, device, &comms[i]);
            if (status == ncclSuccess) continue;
            while (i-- > 0) forget(r, comms[i]);
            return status;
        }
        return ncclSuccess;
    });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    return call_nccl(__func__, [&](Runtime &r, Lock &) {
        return forget(r, comm) ? ncclSuccess : ncclInvalidArgument;
    });
}

// Work that waits for other ranks ends.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    return call_nccl(__func__, [&](Runtime &r, Lock &) {
        if (r.communicators.count(comm) == 0) return ncclInvalidArgument;
        r.engine.abort(*comm->ranks, comm->rank);
        forget(r, comm);
        return ncclSuccess;
    });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    return call_nccl(__func__, [&](Runtime &r, Lock &) {
        if (r.communicators.count(comm) == 0) return ncclInvalidArgument;
        *error = comm->ranks->error;
        return ncclSuccess;
    });
}

ncclResult_t ncclGroupStart() {
    return call_nccl(__func__, [&](Runtime &, Lock &) {
        ++group().depth;
        return ncclSuccess;
    });
}

ncclResult_t ncclGroupEnd() {
    return call_nccl(__func__, [&](Runtime &r, Lock &lock) {
        if (group().depth == 0) return ncclInvalidUsage;
        if (--group().depth > 0) return ncclSuccess;
        ncclResult_t status = ncclSuccess;
        for (const auto &call : std::exchange(group().calls, {})) {
            const ncclResult_t s = call(r, lock);
            if (status == ncclSuccess) status = s;
        }
        for (auto &[place, parcels] : std::exchange(group().parcels, {})) {
            const ncclResult_t s =
                enqueue(r, std::make_shared<const Collective>(std::move(parcels)), place.second);
            if (status == ncclSuccess) status = s;
        }
        return status;
    });
}

ncclResult_t ncclAllReduce(const void *send, void *recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    if (op != ncclSum) return ncclInvalidArgument;
    return collective(__func__, {{}, 0, Collective::Kind::kAllReduce, send, recv, count, type, 0},
                      comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    return collective(__func__, {{}, 0, Collective::Kind::kAllGather, send, recv, count, type, 0},
                      comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
    return collective(__func__,
                      {{}, 0, Collective::Kind::kBroadcast, send, recv, count, type, root}, comm,
                      stream);
}

ncclResult_t ncclSend(const void *send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
    return add_parcel(__func__, &Collective::sends, send, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *recv, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return add_parcel(__func__, &Collective::receives, recv, count, type, peer, comm, stream);
}

const char *ncclGetErrorString(ncclResult_t result) {
    switch (result) {
        case ncclSuccess:
            return "no error";
        case ncclUnhandledCudaError:
            return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
        case ncclSystemError:
            return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
        case ncclInternalError:
            return "internal error - please report this issue to the NCCL developers";
        case ncclInvalidArgument:
            return "invalid argument (run with NCCL_DEBUG=WARN for details)";
        case ncclInvalidUsage:
            return "invalid usage (run with NCCL_DEBUG=WARN for details)";
        case ncclRemoteError:
            return "remote process exited or there was a network error";
        case ncclInProgress:
            return "NCCL operation in progress";
        default:
            return "unknown result code";
    }
}
}
