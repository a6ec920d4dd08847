// What changes from pass to pass, in device memory: kernels read it there, so that the same
// launches serve every pass. A pass of many rows has tables for each slice of it.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/graphs.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/stream.h"
#include "backend/device.h"
#include "kernels/draft_attend.h"
#include "kernels/step_tables.h"

namespace kimi::cuda {

inline constexpr std::uint32_t kMaxRows = 64;  // of a slice: what the kernels take

// One layout on the host and on the device. Behind it lie the pages, [sequences, pages_stride].
struct PassRows {
    StepSequence sequences[kMaxRows];             // of the target
    DraftSpan full[kMaxRows], sliding[kMaxRows];  // of the drafter's two kinds of layers
    std::uint64_t word[kMaxRows];
    std::int32_t token[kMaxRows];
    std::uint32_t position[kMaxRows], base[kMaxRows];
    std::uint32_t cell[kMaxRows];       // page * 64 + place in the page
    std::uint32_t ring_cell[kMaxRows];  // ring * ring_slots + place in the ring
    std::uint32_t picked[kMaxRows];
    std::uint32_t n_rows, n_picked, n_sequences;
    std::uint32_t n_pass_rows;  // of the whole pass, in its first slice
};

// Where a slice lies in its pass.
struct SlicePlace {
    std::uint32_t first_row = 0, first_pick = 0, n_pass_rows = 0;
};

class PassTables {
  public:
    PassTables(std::uint32_t max_context, const DraftShape &draft);

    // Fills the tables and enqueues their copy. copied() has been waited for: the copy before.
    void set(const StepPlan &slice, const SlicePlace &place, cudaStream_t stream);
    void set(const DraftPlan &slice, const SlicePlace &place, cudaStream_t stream);

    const Event &copied() const { return copied_; }

    // On the device.
    PassRows *device_rows() const { return reinterpret_cast<PassRows *>(device_.data()); }
    const PassRows *rows() const { return reinterpret_cast<const PassRows *>(device_.data()); }
    const std::uint32_t *pages() const {
        return reinterpret_cast<const std::uint32_t *>(device_.data() + sizeof(PassRows));
    }
    std::uint32_t pages_stride() const { return pages_stride_; }
    StepTables step() const;

    // What the launches of this pass are made for: its own shape, or a larger one.
    const PassShape &shape() const { return shape_; }
    void make_for(const PassShape &larger) { shape_ = larger; }
    std::uint32_t n_picked() const { return host().n_picked; }
    const SlicePlace &place() const { return place_; }

  private:
    PassRows &host() const { return *reinterpret_cast<PassRows *>(host_.data()); }
    void begin(PassKind kind, const SlicePlace &place, std::span<const std::uint32_t> position,
               std::span<const std::uint32_t> picked, std::size_t n_sequences);
    void set_pages(std::uint32_t sequence, std::span<const std::uint32_t> pages);
    void upload(cudaStream_t stream);

    std::uint32_t pages_stride_, ring_slots_;
    PassShape shape_;
    SlicePlace place_;
    PinnedArray<std::byte> host_;
    DeviceArray<std::byte> device_;
    Event copied_;
};

}  // namespace kimi::cuda
