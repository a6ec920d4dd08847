// CUDA graphs of passes and steps. What changes from pass to pass lies in device memory, so a graph
// serves every pass that is not larger: it is captured once and never changed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/device.h"

namespace kimi::cuda {

enum class PassKind : std::uint8_t { target, block, context, step };

// What the launches of a pass are made for; the pass may be smaller. A step's rows are the
// target's, and its widest sequence is a block: without rows where nothing is drafted.
struct PassShape {
    PassKind kind = PassKind::target;
    std::uint32_t rows = 0, picked = 0, sequences = 0;
    std::uint32_t widest = 0;   // rows of a sequence
    std::uint32_t context = 0;  // the longest of a row

    auto operator<=>(const PassShape &) const = default;
};

class Graphs {
  public:
    Graphs(const GraphBuckets &buckets, std::uint32_t max_context, cudaStream_t stream)
        : buckets_(buckets), max_context_(max_context), stream_(stream) {}
    // Ends a capture that a failure left open: until then nothing of the thread can be freed.
    void abandon() noexcept;

    // Throws KIMI_DEVICE_OUT_OF_MEMORY unless what they may take is free.
    void expect_memory() const;

    // Begins a pass that is this large and returns what its launches are to be made for: a bucket's
    // shape, or its own where there is none.
    PassShape begin(const PassShape &shape);
    // The largest step of so many sequences that has a graph, and how many it is made for; without
    // rows: none.
    PassShape largest_step(std::uint32_t n_sequences) const;
    // Whether the graph of this pass exists: its launches need not be made.
    bool replays() const { return mode_ == Mode::replay; }
    // All operations have been called: runs the graph, if there is one. Throws
    // KIMI_DEVICE_OUT_OF_MEMORY where a new one takes too much.
    void end();

    std::size_t size() const { return graphs_.size(); }

  private:
    enum class Mode : std::uint8_t { eager, capture, replay };
    struct Destroy {
        void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
    };
    using Executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

    bool round_up(PassShape &shape) const;
    Executable end_capture();
    void check_memory(cudaError_t status, const char *what) const;
    void count_memory(std::size_t bytes);

    GraphBuckets buckets_;
    std::uint32_t max_context_;
    cudaStream_t stream_;
    Mode mode_ = Mode::eager;
    PassShape shape_;
    std::size_t taken_ = 0;  // bytes of the device, by all graphs
    std::map<PassShape, Executable> graphs_;
};

}  // namespace kimi::cuda
