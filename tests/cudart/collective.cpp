#include "tests/cudart/collective.h"

#include <algorithm>
#include <cstring>

#include "base/bf16.h"
#include "base/error.h"

namespace kimi::cudart {
namespace {

// Bytes of the device, and which of them somebody wrote.
struct Message {
    std::vector<std::byte> bytes;
    std::vector<std::uint8_t> written;
};

Message read(Running &user, const Pointer &from, std::size_t n) {
    if (n == 0) return {};
    const std::byte *p = user.read(from, n);
    const std::uint8_t *state = from.memory->state.get() + from.offset();
    return {{p, p + n}, {state, state + n}};
}

void write(Running &user, const Pointer &to, const Message &m) {
    if (m.bytes.empty()) return;
    std::memcpy(user.write(to, m.bytes.size()), m.bytes.data(), m.bytes.size());
    for (std::size_t i = 0; i < m.written.size(); ++i)
        if (m.written[i] == 0) Running::forget(to + i, 1);
}

template <typename T, typename Sum>
void add(Message &to, const Message &from, Sum &&sum) {
    for (std::size_t at = 0; at < to.bytes.size(); at += sizeof(T)) {
        T a, b;
        std::memcpy(&a, &to.bytes[at], sizeof a);
        std::memcpy(&b, &from.bytes[at], sizeof b);
        a = sum(a, b);
        std::memcpy(&to.bytes[at], &a, sizeof a);
        const bool written = std::count(&from.written[at], &from.written[at] + sizeof a, 0) == 0;
        if (!written) std::memset(&to.written[at], 0, sizeof a);
    }
}

void add(Message &to, const Message &from, ncclDataType_t type) {
    switch (type) {
        case ncclFloat32:
            return add<float>(to, from, [](float a, float b) { return a + b; });
        case ncclBfloat16:
            return add<bf16>(to, from,
                             [](bf16 a, bf16 b) { return to_bf16(to_float(a) + to_float(b)); });
        case ncclUint8:
            return add<std::uint8_t>(to, from, [](std::uint8_t a, std::uint8_t b) {
                return static_cast<std::uint8_t>(a + b);
            });
        default:
            return add<std::uint32_t>(to, from,
                                      [](std::uint32_t a, std::uint32_t b) { return a + b; });
    }
}

// What every rank receives.
Message combined(const Collective &call, std::vector<Message> sent) {
    if (call.kind == Collective::Kind::kBroadcast) {
        return std::move(sent[static_cast<std::size_t>(call.root)]);
    }
    Message all = std::move(sent[0]);
    for (std::size_t r = 1; r < sent.size(); ++r) {
        if (call.kind == Collective::Kind::kAllReduce) {
            add(all, sent[r], call.type);
        } else {
            all.bytes.insert(all.bytes.end(), sent[r].bytes.begin(), sent[r].bytes.end());
            all.written.insert(all.written.end(), sent[r].written.begin(), sent[r].written.end());
        }
    }
    return all;
}

// Each parcel that a rank receives, in the order of `ranks` and their receives.
std::vector<Message> delivered(const std::vector<Arrival> &ranks) {
    const std::size_t n = ranks.size();
    std::vector<std::deque<Message>> on_the_way(n * n);  // [from, to]
    for (std::size_t from = 0; from < n; ++from)
        for (const Parcel &parcel : ranks[from].op->task->collective->sends)
            on_the_way[from * n + parcel.peer].push_back(
                read(*ranks[from].user, parcel.at, parcel.bytes));
    std::vector<Message> out;
    for (std::size_t to = 0; to < n; ++to)
        for (const Parcel &parcel : ranks[to].op->task->collective->receives) {
            std::deque<Message> &sent = on_the_way[parcel.peer * n + to];
            if (sent.empty() || sent.front().bytes.size() != parcel.bytes)
                fail(KIMI_INTERNAL, "rank ", to, " receives ", parcel.bytes, " bytes from rank ",
                     parcel.peer, ", which sends ", sent.empty() ? 0 : sent.front().bytes.size());
            out.push_back(std::move(sent.front()));
            sent.pop_front();
        }
    for (std::size_t i = 0; i < n * n; ++i)
        if (!on_the_way[i].empty())
            fail(KIMI_INTERNAL, "rank ", i % n, " does not receive what rank ", i / n, " sends");
    return out;
}

void run_parcels(const std::vector<Arrival> &ranks) {
    const std::vector<Message> messages = delivered(ranks);
    auto next = messages.begin();
    for (const Arrival &a : ranks)
        for (const Parcel &parcel : a.op->task->collective->receives)
            write(*a.user, parcel.at, *next++);
}

void leave_undefined(const Pointer &at, std::size_t bytes) {
    if (at.memory != nullptr && !at.memory->of_host)
        at.memory->mark_written(at.offset(), bytes, true);
}

}  // namespace

bool Ranks::all_arrived() const {
    return std::none_of(rank.begin(), rank.end(), [](const Rank &r) { return r.arrived.empty(); });
}

bool Ranks::none_arrived() const {
    return std::all_of(rank.begin(), rank.end(), [](const Rank &r) { return r.arrived.empty(); });
}

std::string Ranks::missing() const {
    std::string text = "ranks";
    for (std::size_t r = 0; r < rank.size(); ++r)
        if (rank[r].arrived.empty()) text += cat(text == "ranks" ? " " : ", ", r);
    return text;
}

std::size_t Collective::sent_bytes() const {
    return count * bytes_of(type);
}

std::size_t Collective::received_bytes() const {
    return sent_bytes() * (kind == Kind::kAllGather ? ranks->rank.size() : 1);
}

std::size_t bytes_of(ncclDataType_t type) {
    switch (type) {
        case ncclUint8:
            return 1;
        case ncclBfloat16:
            return 2;
        case ncclInt32:
        case ncclFloat32:
            return 4;
        default:
            return 0;
    }
}

const char *name_of(Collective::Kind kind) {
    switch (kind) {
        case Collective::Kind::kAllReduce:
            return "ncclAllReduce";
        case Collective::Kind::kAllGather:
            return "ncclAllGather";
        case Collective::Kind::kBroadcast:
            return "ncclBroadcast";
        case Collective::Kind::kParcels:
            return "ncclSend and ncclRecv";
    }
    return "?";
}

void leave_undefined(const Collective &call) {
    leave_undefined(call.recv, call.received_bytes());
    for (const Parcel &parcel : call.receives) leave_undefined(parcel.at, parcel.bytes);
}

void run_together(const std::vector<Arrival> &ranks) {
    const Collective &first = *ranks[0].op->task->collective;
    std::vector<Message> sent;
    for (const Arrival &a : ranks) {
        const Collective &c = *a.op->task->collective;
        if (!c.fits(first)) {
            fail(KIMI_INTERNAL, "rank ", c.rank, " calls ", name_of(c.kind), " of ", c.count,
                 " elements of type ", static_cast<int>(c.type), ", rank ", first.rank, " ",
                 name_of(first.kind), " of ", first.count, " of type ",
                 static_cast<int>(first.type));
        }
        sent.push_back(c.has_input() ? read(*a.user, c.send, c.sent_bytes()) : Message());
    }
    if (first.kind == Collective::Kind::kParcels) return run_parcels(ranks);
    const Message all = combined(first, std::move(sent));
    for (const Arrival &a : ranks) write(*a.user, a.op->task->collective->recv, all);
}

}  // namespace kimi::cudart
