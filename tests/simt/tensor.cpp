#include "tests/simt/tensor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tests/simt/async.h"
#include "tests/simt/block.h"
#include "tests/simt/mma.h"

namespace kimi::simt::host {
namespace {

constexpr std::uint32_t kAllLanes = ~0U;
constexpr unsigned kRowBytes = 16;

const char *name_of(TensorKind kind) {
    switch (kind) {
        case TensorKind::kBf16:
            return "mma_bf16";
        case TensorKind::kF16:
            return "mma_f16";
        case TensorKind::kE4m3:
            return "mma_e4m3";
        default:
            return "ldmatrix";
    }
}

// Registers 0 and 1 of C are elements 2 l and 2 l + 1 of its upper half in lane l, 2 and 3 of its
// lower.
constexpr unsigned element_of(unsigned lane, unsigned reg) {
    return reg / 2 * 64 + lane * 2 + reg % 2;
}

// ---- carrying out

// Gives the fragments that wait for a part their n registers.
template <typename Word>
void write_back(TensorOperation &op, unsigned part, unsigned n, Word &&word) {
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        PendingRegisters *f = op.targets[part][lane];
        if (f == nullptr) continue;
        for (unsigned i = 0; i < n; ++i) f->words()[i] = word(lane, i);
        f->expect(PendingRegisters::kNone, 0);
    }
}

// Lane 4 i + j receives elements 2 j and 2 j + 1 of row i: as the rows lie in memory.
void load_matrix(Warp &warp, const TensorOperation &op, unsigned first_lane,
                 TensorOperation::Register &out, Site site) {
    Block &block = *warp.block;
    for (unsigned r = 0; r < 8; ++r) {
        const std::uint32_t row = op.rows[first_lane + r];
        block.shadow().read_row(warp.threads[first_lane + r], row, site);
        std::memcpy(out.data() + 4 * r, block.shared_memory() + row, kRowBytes);
    }
}

void transpose(TensorOperation::Register &matrix) {
    std::uint16_t m[8][8], t[8][8];
    std::memcpy(m, matrix.data(), sizeof m);
    for (unsigned i = 0; i < 8; ++i) {
        for (unsigned j = 0; j < 8; ++j) t[i][j] = m[j][i];
    }
    std::memcpy(matrix.data(), t, sizeof t);
}

void run_ldmatrix(Warp &warp, TensorOperation &op, const TensorQueue::Head &head) {
    Block &block = *warp.block;
    if (block.counts()) {
        WarpAccess rows;
        for (unsigned lane = 0; lane < op.n_matrices * 8U; ++lane) rows.add(lane, op.rows[lane]);
        block.tally().add_ldmatrix(head.site, rows);
    }
    Order::align_stamps(warp);
    for (unsigned i = 0; i < op.n_matrices; ++i) {
        load_matrix(warp, op, i * 8, op.loaded[i], head.site);
        if (head.kind == TensorKind::kLdmatrixTransposed) transpose(op.loaded[i]);
    }
    const unsigned parts = op.in_two_parts ? 2 : 1;
    for (unsigned part = 0; part < parts; ++part) {
        write_back(op, part, op.n_matrices / parts,
                   [&](unsigned lane, unsigned i) { return op.loaded[2 * part + i][lane]; });
    }
}

// The registers of an operand, taken from where they are.
template <std::size_t N>
std::array<Words, N> operand(const TensorQueue &queue, const TensorSource &source,
                             std::array<TensorOperation::Register, N> &own) {
    std::array<Words, N> words;
    for (std::size_t r = 0; r < N; ++r) {
        words[r] = own[r].data();
        if (source.own == kAllLanes) continue;
        const auto &loaded = queue.operations[source.operation].loaded[2U * source.part + r];
        if (source.own == 0) {
            words[r] = loaded.data();
            continue;
        }
        for (unsigned lane = 0; lane < kWarpSize; ++lane) {
            if ((source.own >> lane & 1U) == 0) own[r][lane] = loaded[lane];
        }
    }
    return words;
}

void fetch_c(const TensorQueue &queue, TensorOperation &op) {
    if (op.c.own == kAllLanes) return;
    const auto &from = queue.operations[op.c.operation].d;
    if (op.c.own == 0) {
        op.d = from;
        return;
    }
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        if ((op.c.own >> lane & 1U) != 0) continue;
        for (unsigned r = 0; r < 4; ++r) op.d[element_of(lane, r)] = from[element_of(lane, r)];
    }
}

void run_mma(Warp &warp, TensorOperation &op, TensorKind kind) {
    TensorQueue &queue = *warp.tensor;
    Instructions &count = warp.block->tally().instructions;
    const auto a = operand(queue, op.a, op.own_a);
    const auto b = operand(queue, op.b, op.own_b);
    fetch_c(queue, op);
    if (kind == TensorKind::kBf16) {
        ++count.mma_bf16;
        multiply_bf16(op.d.data(), a, b);
    } else if (kind == TensorKind::kF16) {
        ++count.mma_f16;
        multiply_f16(op.d.data(), a, b);
    } else {
        ++count.mma_e4m3;
        multiply_e4m3(op.d.data(), a, b);
    }
    write_back(op, 0, 4, [&](unsigned lane, unsigned r) {
        return std::bit_cast<std::uint32_t>(op.d[element_of(lane, r)]);
    });
}

}  // namespace

bool run_tensor_queue(Warp &warp) {
    TensorQueue &q = *warp.tensor;
    const std::uint16_t end = *std::min_element(q.queued.begin(), q.queued.end());
    if (end == q.executed) return false;
    for (; q.executed < end; ++q.executed) {
        TensorOperation &op = q.operations[q.executed];
        const TensorQueue::Head &head = q.heads[q.executed];
        if (head.kind == TensorKind::kLdmatrix || head.kind == TensorKind::kLdmatrixTransposed) {
            run_ldmatrix(warp, op, head);
        } else {
            run_mma(warp, op, head.kind);
        }
    }
    bool all_done = true;
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        const std::uint32_t bit = 1U << lane;
        if (q.queued[lane] != q.executed) {
            all_done = false;
        } else if ((q.settling & bit) != 0) {
            q.settling &= ~bit;
            warp.runnable |= bit;
        }
    }
    if (all_done) q.reset();
    return true;
}

namespace {

// ---- queueing

// The lane's next operation, which other lanes may have opened.
TensorOperation &next_operation(Thread &thread, TensorKind kind, Site site) {
    Warp &warp = *thread.warp;
    TensorQueue &q = *warp.tensor;
    std::uint16_t &queued = q.queued[thread.lane];
    if (queued == TensorQueue::kCapacity) wait_for_tensor_operations(thread);
    TensorOperation &op = q.operations[queued];
    TensorQueue::Head &head = q.heads[queued];
    if (queued < q.length) {
        if (head.kind == kind && head.site == site) return op;
        thread.block->fault(FaultKind::kMissingLanes, site,
                            cat(name_of(kind), ", while other lanes of the warp do ",
                                name_of(head.kind), " at ", head.site.file, ':', head.site.line));
    }
    if (warp.exists != kAllLanes || warp.exited != 0) {
        thread.block->fault(FaultKind::kMissingLanes, site,
                            cat(name_of(kind), " in a warp with lanes that ",
                                warp.exited != 0 ? "have exited" : "do not exist"));
    }
    ++q.length;
    head = {kind, site};
    op.a = op.b = op.c = TensorSource();
    for (auto &part : op.targets) part.fill(nullptr);
    return op;
}

// Connects an operand to the operation it comes from, or takes its registers.
template <std::size_t N>
void connect(TensorSource &source, const PendingRegisters &f, unsigned lane,
             std::array<TensorOperation::Register, N> &own) {
    if (f.pending()) {
        source.operation = f.operation();
        source.part = f.part();
        return;
    }
    source.own |= 1U << lane;
    for (std::size_t r = 0; r < N; ++r) own[r][lane] = f.words()[r];
}

void connect_c(TensorOperation &op, const PendingRegisters &f, unsigned lane) {
    if (f.pending()) {
        op.c.operation = f.operation();
        return;
    }
    op.c.own |= 1U << lane;
    for (unsigned r = 0; r < 4; ++r) {
        op.d[element_of(lane, r)] = std::bit_cast<float>(f.words()[r]);
    }
}

void expect_result(TensorQueue &q, TensorOperation &op, unsigned lane, std::uint16_t part,
                   PendingRegisters &f) {
    f.forget();
    op.targets[part][lane] = &f;
    f.expect(q.queued[lane], part);
}

}  // namespace

void TensorQueue::reset() {
    length = executed = 0;
    settling = 0;
    queued.fill(0);
}

void settle(Thread &thread) {
    TensorQueue &q = *thread.warp->tensor;
    while (q.queued[thread.lane] > q.executed) {
        if (run_tensor_queue(*thread.warp)) continue;
        const TensorQueue::Head &last = q.heads[q.queued[thread.lane] - 1U];
        q.settling |= 1U << thread.lane;
        thread.wait_lanes = kAllLanes;
        thread.block->park(Wait::kWarp, name_of(last.kind), last.site);
    }
}

void queue_ldmatrix(TensorKind kind, int n_matrices, PendingRegisters &f, PendingRegisters *g,
                    const SharedPlace &row, Site site) {
    Thread &thread = current_thread();
    if (thread.lane < 8U * static_cast<unsigned>(n_matrices)) {
        check_shared(thread, row, kRowBytes, kRowBytes, "ldmatrix", site);
    }
    TensorQueue &q = *thread.warp->tensor;
    TensorOperation &op = next_operation(thread, kind, site);
    op.n_matrices = static_cast<std::uint8_t>(n_matrices);
    op.in_two_parts = g != nullptr;
    op.rows[thread.lane] = row.at;
    expect_result(q, op, thread.lane, 0, f);
    if (g != nullptr) expect_result(q, op, thread.lane, 1, *g);
    ++q.queued[thread.lane];
}

void queue_mma(TensorKind kind, FragC &d, const FragA &a, const FragB &b, Site site) {
    Thread &thread = current_thread();
    TensorQueue &q = *thread.warp->tensor;
    TensorOperation *op = &next_operation(thread, kind, site);
    while (!op->a.accepts(a) || !op->b.accepts(b) || !op->c.accepts(d)) {
        wait_for_tensor_operations(thread);
        op = &next_operation(thread, kind, site);
    }
    connect(op->a, a, thread.lane, op->own_a);
    connect(op->b, b, thread.lane, op->own_b);
    connect_c(*op, d, thread.lane);
    expect_result(q, *op, thread.lane, 0, d);
    ++q.queued[thread.lane];
}

void PendingRegisters::wait() const {
    wait_for_tensor_operations(current_thread());
}

void PendingRegisters::cancel() const {
    const Thread &thread = current_thread();
    thread.warp->tensor->operations[operation_].targets[part_][thread.lane] = nullptr;
    operation_ = kNone;
}

}  // namespace kimi::simt::host
