// x += sum over the ranks, in their order, of partial; y = x / sqrt(mean(x^2) + eps) * norm.
//
// Partials go over the wire as bf16; their sum is made in fp32 and rounded to bf16 once, so that
// one shot and two shots give the same bits, and every rank has the same ones. Peers' buffers are
// read, not written: concurrent posted writes collapse on some PCIe switches, reads do not.
//
//   one shot    every rank reads the rows of all others: (ranks - 1) * 2 * width bytes per row
//   two shots   every rank sums its part of a row and the others read that: 4 * width * (ranks - 1)
//   / ranks
//
// Protocol. A call has a generation, counted in device memory by whatever shape of call uses the
// buffers. A rank writes its partial to half generation % 2 of its own buffer and then the
// generation to a flag in each peer's memory; it reads a peer's rows once that peer's flag is
// there. A flag may be one generation ahead, never more, so any other distance means "not yet",
// also after the counter has wrapped around. A half is overwritten two calls later: by then the
// call between has seen a flag of every peer that it set after it had ended the call that read the
// half. A rank that waits longer than timeout_ns gives up and says whom it waited for.
#pragma once

#include <cstddef>

#include "kernels/simt/types.h"

namespace kimi {

inline constexpr std::uint32_t kAllReduceMaxRanks = 8;

// What one rank shares with the others, in one allocation.
struct AllReduceBuffer {
    simt::Global<bf16> partial;         // [2, max_rows, width], aligned to 16 bytes
    simt::Global<bf16> sum;             // the same
    simt::Global<std::uint32_t> flags;  // [2 shots, ranks, max_rows], 0 in the beginning
};
constexpr std::size_t all_reduce_elements(std::uint32_t max_rows, std::uint32_t width) {
    return std::size_t{2} * max_rows * width;
}
constexpr std::size_t all_reduce_flags(std::uint32_t n_ranks, std::uint32_t max_rows) {
    return std::size_t{2} * n_ranks * max_rows;
}

struct AllReduceParams {
    AllReduceBuffer buffer[kAllReduceMaxRanks];  // of every rank
    std::uint32_t rank, n_ranks;
    std::uint32_t buffer_rows;               // max_rows of the buffers
    simt::Global<std::uint32_t> generation;  // [2] of this rank: calls made, and blocks done; 0, 0
    simt::Global<std::uint32_t> failed;      // [1]: 0, or 1 + the rank that did not come
    simt::Global<const float> partial;       // [rows, width]
    simt::Global<float> x;                   // [rows, width]
    simt::Global<const bf16> norm;           // [width], or null: no y
    simt::Global<bf16> y;                    // [rows, width]
    simt::Global<const std::uint32_t> n_rows;  // on the device; the same on all ranks
    std::uint32_t max_rows, width;             // width a multiple of 64, at most 8192
    float eps;
    bool two_shots;
    std::uint64_t timeout_ns;
};

// Whether two shots are faster, by the bytes of a call.
constexpr bool all_reduce_two_shots(std::uint32_t rows, std::uint32_t width) {
    return std::size_t{2} * rows * width > 48 * 1024;
}

void all_reduce(const AllReduceParams &params, simt::Stream stream);

}  // namespace kimi
