// The queue of a warp's mma and ldmatrix operations.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/simt/types.h"
#include "tests/simt/access.h"
#include "tests/simt/site.h"

namespace kimi::simt {
namespace host {

struct Thread;
struct Warp;

enum class TensorKind : std::uint8_t { kBf16, kF16, kE4m3, kLdmatrix, kLdmatrixTransposed };

// Where an operand comes from: an earlier operation in the queue, or the lanes' own registers. In
// divergent code some lanes may have looked at a fragment already, and bring its registers.
struct TensorSource {
    std::uint16_t operation = PendingRegisters::kNone, part = 0;
    std::uint32_t own = 0;  // lanes that bring registers

    bool accepts(const PendingRegisters &f) const {
        return !f.pending() || operation == PendingRegisters::kNone ||
               (operation == f.operation() && part == f.part());
    }
};

// One operation of the warp.
struct TensorOperation {
    using Register = std::array<std::uint32_t, 32>;  // by lane

    std::uint8_t n_matrices;  // of ldmatrix
    bool in_two_parts;        // ldmatrix into two fragments
    TensorSource a, b, c;
    std::array<Register, 4> own_a;
    std::array<Register, 2> own_b;
    Register rows;                   // offsets in shared memory
    std::array<Register, 4> loaded;  // by ldmatrix
    std::array<float, 128> d;        // C, then D: [16][8] in order of rows
    std::array<std::array<PendingRegisters *, 32>, 2> targets;  // [part][lane], null: not wanted
};

struct TensorQueue {
    static constexpr std::uint16_t kCapacity = 64;

    std::uint16_t length = 0;                // operations that some lane has queued
    std::uint16_t executed = 0;              // the first so many are done
    std::uint32_t settling = 0;              // lanes that wait
    std::array<std::uint16_t, 32> queued{};  // by lane
    struct Head {
        TensorKind kind;
        Site site;
    };
    std::array<Head, kCapacity> heads;
    std::array<TensorOperation, kCapacity> operations;

    void reset();
};

// Carries out what all lanes have queued; returns whether that was anything. Lanes that waited for
// no more go on.
bool run_tensor_queue(Warp &warp);
// Returns when all that the thread has queued is done. Needed before a thread looks at a fragment,
// writes shared memory or synchronises: an operation still queued must not see what comes later.
void wait_for_tensor_operations(Thread &thread);
void settle(Thread &thread);  // the same, if there is something

void queue_ldmatrix(TensorKind kind, int n_matrices, PendingRegisters &f, PendingRegisters *g,
                    const SharedPlace &row, Site site);
void queue_mma(TensorKind kind, FragC &d, const FragA &a, const FragB &b, Site site);

}  // namespace host

template <typename T>
void ldmatrix_x1(Fragment<std::uint32_t, 1> &f, const Shared<T> &row, Site site = Site::here()) {
    host::queue_ldmatrix(host::TensorKind::kLdmatrix, 1, f, nullptr, row.place(), site);
}
template <typename T>
void ldmatrix_x1_trans(Fragment<std::uint32_t, 1> &f, const Shared<T> &row,
                       Site site = Site::here()) {
    host::queue_ldmatrix(host::TensorKind::kLdmatrixTransposed, 1, f, nullptr, row.place(), site);
}
template <typename T>
void ldmatrix_x2(FragB &f, const Shared<T> &row, Site site = Site::here()) {
    host::queue_ldmatrix(host::TensorKind::kLdmatrix, 2, f, nullptr, row.place(), site);
}
template <typename T>
void ldmatrix_x2_trans(FragB &f, const Shared<T> &row, Site site = Site::here()) {
    host::queue_ldmatrix(host::TensorKind::kLdmatrixTransposed, 2, f, nullptr, row.place(), site);
}
template <typename T>
void ldmatrix_x4(FragA &f, const Shared<T> &row, Site site = Site::here()) {
    host::queue_ldmatrix(host::TensorKind::kLdmatrix, 4, f, nullptr, row.place(), site);
}
template <typename T>
void ldmatrix_x4_trans(FragA &f, const Shared<T> &row, Site site = Site::here()) {
    host::queue_ldmatrix(host::TensorKind::kLdmatrixTransposed, 4, f, nullptr, row.place(), site);
}
template <typename T>
void ldmatrix_x4(FragB &f, FragB &g, const Shared<T> &row, Site site = Site::here()) {
    host::queue_ldmatrix(host::TensorKind::kLdmatrix, 4, f, &g, row.place(), site);
}
template <typename T>
void ldmatrix_x4_trans(FragB &f, FragB &g, const Shared<T> &row, Site site = Site::here()) {
    host::queue_ldmatrix(host::TensorKind::kLdmatrixTransposed, 4, f, &g, row.place(), site);
}

inline void mma_bf16(FragC &d, const FragA &a, const FragB &b, Site site = Site::here()) {
    host::queue_mma(host::TensorKind::kBf16, d, a, b, site);
}
inline void mma_f16(FragC &d, const FragA &a, const FragB &b, Site site = Site::here()) {
    host::queue_mma(host::TensorKind::kF16, d, a, b, site);
}
inline void mma_e4m3(FragC &d, const FragA &a, const FragB &b, Site site = Site::here()) {
    host::queue_mma(host::TensorKind::kE4m3, d, a, b, site);
}

}  // namespace kimi::simt
