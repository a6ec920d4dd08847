// Weights in device memory: copied from the mapped files through pinned buffers, int4 experts in
// the order of kernels/moe_layout.h.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/cuda/memory.h"
#include "backend/cuda/stream.h"
#include "backend/device.h"
#include "base/bf16.h"

namespace kimi::cuda {

// The experts of a layer that this rank has.
struct ExpertWeights {
    DeviceArray<std::uint8_t> gate_up, down;  // [held] matrices
    DeviceArray<std::uint32_t> held;          // [experts] of moe_route.h
    std::uint32_t n_held = 0, width = 0;
};

// The two products of absorbed attention with kv_b.
struct AbsorbedWeights {
    DeviceArray<bf16> keys;    // [heads, kv_rank, nope]: W_UK, transposed
    DeviceArray<bf16> values;  // [heads, v, kv_rank]
};

class CudaWeights {
  public:
    // Enqueues on the stream; a source is read before the call returns.
    explicit CudaWeights(cudaStream_t stream) : stream_(stream) {}

    // Let the views refer to the device.
    void load(Matrix &w);
    void load(Vector &w);
    void load(std::shared_ptr<const float[]> &values, std::uint32_t n);
    void load(MlaWeights &w, const MlaShape &shape);
    void load(std::span<Expert> layer);
    void finish();  // waits, and frees what only loading needs

    const AbsorbedWeights &of(const MlaWeights &w) const { return absorbed_.at(w.kv_b.data); }
    const ExpertWeights &of(std::span<const Expert> layer) const;

  private:
    // A part of a matrix as a file has it.
    struct Rows {
        const std::byte *from;
        std::size_t stride, bytes, n;  // from row to row, of a row, rows
    };
    // Through the pinned buffers to the device, rows one behind the other.
    void copy(const Rows &rows, void *to);
    std::byte *stage(std::size_t bytes);
    void release();
    void load(const Expert &expert, std::uint8_t *gate_up, std::uint8_t *down);
    void reserve_raw(const Expert &expert);

    struct Stage {
        PinnedArray<std::byte> memory;
        Event free;
    };
    cudaStream_t stream_;
    Stage stages_[2];
    int turn_ = 0;
    DeviceArray<std::byte> raw_;  // of one expert, as the files have it
    std::vector<DeviceArray<std::byte>> arrays_;
    std::unordered_map<const std::byte *, AbsorbedWeights> absorbed_;  // by kv_b.data
    std::unordered_map<const std::byte *, ExpertWeights> experts_;     // by gate.data of the first
};

}  // namespace kimi::cuda
