// What streams record instead of running it, between cudaStreamBeginCapture and EndCapture.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cudart/op.h"

namespace kimi::cudart {

struct Node {
    TaskPtr task;
    int device;
    std::size_t lane;                // of its graph: one for each stream it was captured from
    std::vector<std::size_t> after;  // earlier nodes
};

}  // namespace kimi::cudart

struct CUgraph_st {
    std::vector<kimi::cudart::Node> nodes;
    std::size_t n_lanes = 0;
};

struct CUgraphExec_st {
    CUgraph_st graph;
    std::vector<std::size_t> lanes;  // of the engine
    kimi::cudart::OpPtr last;        // end of the last launch
};

namespace kimi::cudart {

using Graph = ::CUgraph_st;
using GraphExec = ::CUgraphExec_st;

// The nodes without one after them.
std::vector<std::size_t> leaves(const Graph &graph);

struct Capture {
    Graph graph;
    cudaStreamCaptureMode mode;
    std::thread::id thread = std::this_thread::get_id();
    bool invalid = false, ended = false;

    // Whether it forbids this thread calls that may wait.
    bool forbids_waiting() const {
        const bool own = thread == std::this_thread::get_id();
        return own ? mode != cudaStreamCaptureModeRelaxed : mode == cudaStreamCaptureModeGlobal;
    }
};

// Where a stream or an event is in a capture.
struct Captured {
    std::shared_ptr<Capture> capture;
    std::size_t lane = 0;
    std::vector<std::size_t> tips;  // nodes that the next one follows
    bool is_origin = false;

    explicit operator bool() const { return capture != nullptr; }
    void add(TaskPtr task, int device) {
        auto &nodes = capture->graph.nodes;
        nodes.push_back({std::move(task), device, lane, std::move(tips)});
        tips = {nodes.size() - 1};
    }
};

}  // namespace kimi::cudart
