#include "backend/cuda/graphs.h"

#include <algorithm>

#include "backend/cuda/memory.h"
#include "backend/cuda/pass_tables.h"

namespace kimi::cuda {
namespace {

// The smallest of ascending sizes that is not below n.
bool round_up(const std::vector<std::uint32_t> &sizes, std::uint32_t &n) {
    const auto at = std::lower_bound(sizes.begin(), sizes.end(), n);
    if (at == sizes.end()) return false;
    n = *at;
    return true;
}

std::size_t free_memory() {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
}

constexpr const char *kGraphs = "graphs (field graphs.memory_mib)";

}  // namespace

void Graphs::expect_memory() const {
    if (buckets_.widths.empty() || free_memory() >= buckets_.memory_bytes) return;
    fail_of_memory(buckets_.memory_bytes, kGraphs);
}

// Passes that decode want the logits of all rows; others run by themselves.
bool Graphs::round_up(PassShape &shape) const {
    if (shape.rows == 0) return false;
    const bool decodes = shape.kind != PassKind::target || shape.picked == shape.rows;
    if (!decodes || !cuda::round_up(buckets_.sessions, shape.sequences)) return false;
    if (shape.kind == PassKind::block) {  // every block is as long
        shape.picked = shape.sequences * (shape.widest - 1);
        shape.rows = shape.sequences * shape.widest;
        if (shape.rows > kMaxRows) return false;
    } else if (!cuda::round_up(buckets_.widths, shape.rows)) {
        return false;
    } else if (shape.kind != PassKind::step) {
        shape.picked = shape.widest = shape.rows;
    }
    shape.context = max_context_;
    return true;
}

PassShape Graphs::largest_step(std::uint32_t n_sequences) const {
    PassShape shape = {PassKind::step, 0, 0, n_sequences};
    if (cuda::round_up(buckets_.sessions, shape.sequences) && !buckets_.widths.empty())
        shape.rows = buckets_.widths.back();
    return shape;
}

PassShape Graphs::begin(const PassShape &shape) {
    shape_ = shape;
    mode_ = Mode::eager;
    if (!round_up(shape_)) return shape;
    mode_ = graphs_.contains(shape_) ? Mode::replay : Mode::capture;
    // Relaxed: after a failure, another thread may have to end it.
    if (mode_ == Mode::capture)
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "capturing a graph");
    return shape_;
}

Graphs::Executable Graphs::end_capture() {
    struct DestroyGraph {
        void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
    };
    cudaGraph_t captured = nullptr;
    check(cudaStreamEndCapture(stream_, &captured), "capturing a graph");
    const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph> graph(captured);
    const std::size_t before = free_memory();
    cudaGraphExec_t executable = nullptr;
    check_memory(cudaGraphInstantiate(&executable, captured, 0), "making a graph");
    Executable out(executable);
    // It has its memory then, not only when it first runs.
    check_memory(cudaGraphUpload(out.get(), stream_), "uploading a graph");
    count_memory(before - std::min(before, free_memory()));
    return out;
}

void Graphs::check_memory(cudaError_t status, const char *what) const {
    if (status == cudaErrorMemoryAllocation)
        fail_of_memory(buckets_.memory_bytes - taken_, kGraphs);
    check(status, what);
}

void Graphs::count_memory(std::size_t bytes) {
    taken_ += bytes;
    if (taken_ <= buckets_.memory_bytes) return;
    int device = 0;
    check(cudaGetDevice(&device), "asking for the device");
    fail(KIMI_DEVICE_OUT_OF_MEMORY, "GPU ", device, ": field graphs.memory_mib: is ",
         buckets_.memory_bytes >> 20, ", but ", graphs_.size() + 1, " graphs take ", taken_,
         " bytes, ", bytes, " of them that of ", shape_.rows, " rows x ", shape_.sequences,
         " sessions");
}

void Graphs::abandon() noexcept {
    if (mode_ != Mode::capture) return;
    mode_ = Mode::eager;
    cudaGraph_t captured = nullptr;
    cudaStreamEndCapture(stream_, &captured);
    if (captured != nullptr) cudaGraphDestroy(captured);
    cudaGetLastError();
}

void Graphs::end() {
    if (mode_ == Mode::eager) return;
    if (mode_ == Mode::capture) graphs_.emplace(shape_, end_capture());
    mode_ = Mode::eager;
    check(cudaGraphLaunch(graphs_.at(shape_).get(), stream_), "running a graph");
}

}  // namespace kimi::cuda
