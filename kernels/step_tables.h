// The plan of a step in device memory (backend/step_plan.h): what changes from step to step, so
// that captured kernels read it.
#pragma once

#include <cstdint>

#include "kernels/simt/types.h"

namespace kimi {

// The rows [first_row, first_row + n_rows) of one sequence. Its pages 0 to run_pages - 1 are
// first_page, first_page + 1, ..., so that no table is read for them; run_pages may be 0.
struct alignas(16) StepSequence {
    std::uint32_t first_row, n_rows;
    std::uint32_t first_page, run_pages;
};

struct StepTables {
    simt::Global<const std::uint32_t> n_sequences;  // [1]
    simt::Global<const StepSequence> sequences;     // [n_sequences]
    simt::Global<const std::uint32_t> pages;        // [n_sequences, pages_stride]
    std::uint32_t pages_stride;
    // A row sees slot s iff s < base or bit s - base of word is set; its context are these slots in
    // order.
    simt::Global<const std::uint32_t> base;  // [rows]
    simt::Global<const std::uint64_t> word;  // [rows]
};

}  // namespace kimi
