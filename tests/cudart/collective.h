// What the ranks of an NCCL communicator do together.
#pragma once

#include <nccl.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/cudart/op.h"

namespace kimi::cudart {

struct Arrival {
    OpPtr op;
    std::unique_ptr<Running> user;
};

// The ranks of one communicator.
struct Ranks {
    struct Rank {
        int device = -1;  // none yet
        bool aborted = false;
        std::deque<Arrival> arrived;  // that the other ranks have to come to
    };

    explicit Ranks(std::size_t n) : rank(n) {}
    bool all_arrived() const;
    bool none_arrived() const;
    // "ranks 1, 3", of those that have not arrived.
    std::string missing() const;

    std::vector<Rank> rank;
    std::size_t n_joined = 0;
    ncclResult_t error = ncclSuccess;
};

// What one rank sends to another, or receives from it.
struct Parcel {
    std::size_t peer;
    Pointer at;
    std::size_t bytes;
};

// One rank's part of a call.
struct Collective {
    // kParcels: the sends and receives of a group, to which all ranks come with one of theirs.
    enum class Kind : std::uint8_t { kAllReduce, kAllGather, kBroadcast, kParcels };

    std::shared_ptr<Ranks> ranks;
    std::size_t rank;
    Kind kind;
    Pointer send, recv;
    std::size_t count;  // elements that a rank sends
    ncclDataType_t type;
    int root;
    std::vector<Parcel> sends = {}, receives = {};

    bool fits(const Collective &other) const {
        return kind == other.kind && count == other.count && type == other.type &&
               root == other.root;
    }
    bool has_input() const {
        return kind != Kind::kBroadcast || rank == static_cast<std::size_t>(root);
    }
    std::size_t sent_bytes() const;
    std::size_t received_bytes() const;
};

// 0: not a type of the stand-in.
std::size_t bytes_of(ncclDataType_t type);
const char *name_of(Collective::Kind kind);

// A call that was aborted leaves anything to be received: the kernels behind it may read that.
void leave_undefined(const Collective &call);

// Reads what all ranks send, then writes what each receives. Sums are made in the order of ranks,
// and in bf16 rounded after each; parcels between two ranks arrive in the order they are sent. What
// comes from bytes that nobody wrote stays unwritten.
void run_together(const std::vector<Arrival> &ranks);

}  // namespace kimi::cudart
