// Capture of streams, and graphs.
#include <algorithm>
#include <numeric>

#include "tests/cudart/runtime.h"

using namespace kimi::cudart;

namespace kimi::cudart {

std::vector<std::size_t> leaves(const Graph &graph) {
    std::vector<bool> followed(graph.nodes.size());
    for (const Node &node : graph.nodes)
        for (const std::size_t before : node.after) followed[before] = true;
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < followed.size(); ++i)
        if (!followed[i]) found.push_back(i);
    return found;
}

}  // namespace kimi::cudart

namespace {

bool is_subset(const std::vector<std::size_t> &some, const std::vector<std::size_t> &of) {
    return std::all_of(some.begin(), some.end(), [&of](std::size_t i) {
        return std::find(of.begin(), of.end(), i) != of.end();
    });
}

cudaError_t end_capture(Runtime &r, const Stream &stream, cudaGraph_t *out) {
    *out = nullptr;
    const Captured mine = stream.captured;
    if (!mine) return cudaErrorIllegalState;
    Capture &capture = *mine.capture;
    if (!mine.is_origin) {
        capture.invalid = true;
        return cudaErrorStreamCaptureUnmatched;
    }
    const bool own = capture.thread == std::this_thread::get_id();
    if (!own && capture.mode != cudaStreamCaptureModeRelaxed) {
        return cudaErrorStreamCaptureWrongThread;
    }
    capture.ended = true;
    for (Stream *s : r.streams)
        if (s->captured.capture == mine.capture) s->captured = {};
    if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
    if (!is_subset(leaves(capture.graph), mine.tips)) return cudaErrorStreamCaptureUnjoined;
    auto graph = std::make_unique<Graph>(std::move(capture.graph));
    r.graphs.insert(graph.get());
    *out = graph.release();
    return cudaSuccess;
}

void give_lanes(Runtime &r, GraphExec &exec) {
    while (exec.lanes.size() < exec.graph.n_lanes) exec.lanes.push_back(r.engine.new_lane());
}

// Of a device, for the nodes that run on it.
std::size_t bytes_on(const Runtime &r, const Graph &graph, int device) {
    const auto n = std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                 [&](const Node &node) { return node.device == device; });
    return static_cast<std::size_t>(n) * r.machine.graph_node_bytes;
}

bool take_memory(Runtime &r, const Graph &graph) {
    for (int d = 0; d < r.machine.n_devices; ++d)
        if (bytes_on(r, graph, d) > r.machine.memory_bytes - r.device(d).used) return false;
    for (int d = 0; d < r.machine.n_devices; ++d) r.device(d).used += bytes_on(r, graph, d);
    return true;
}

cudaError_t instantiate(Runtime &r, cudaGraphExec_t *out, cudaGraph_t graph) {
    if (r.graphs.count(graph) == 0) return cudaErrorInvalidValue;
    if (!take_memory(r, *graph)) return cudaErrorMemoryAllocation;
    auto exec = std::make_unique<GraphExec>();
    exec->graph = *graph;
    give_lanes(r, *exec);
    r.graph_execs.insert(exec.get());
    *out = exec.release();
    return cudaSuccess;
}

// Launches of one graph run one after the other.
cudaError_t launch(Runtime &r, GraphExec &exec, Stream &stream) {
    if (stream.captured) {
        stream.captured.capture->invalid = true;
        return r.refused(cudaErrorNotSupported, "a graph inside a graph");
    }
    r.append(stream, {.name = "begin of a graph"}, {exec.last});
    std::vector<OpPtr> ops;
    for (const Node &node : exec.graph.nodes) {
        std::vector<OpPtr> before = {stream.last};
        for (const std::size_t i : node.after) before.push_back(ops[i]);
        ops.push_back(r.engine.add(node.device, node.task, exec.lanes[node.lane], before));
    }
    std::vector<OpPtr> ends;
    for (const std::size_t i : leaves(exec.graph)) ends.push_back(ops[i]);
    r.append(stream, {.name = "end of a graph"}, ends);
    exec.last = stream.last;
    return cudaSuccess;
}

cudaGraphExecUpdateResult difference(const Graph &a, const Graph &b) {
    if (a.nodes.size() != b.nodes.size()) return cudaGraphExecUpdateErrorTopologyChanged;
    for (std::size_t i = 0; i < a.nodes.size(); ++i) {
        if (a.nodes[i].after != b.nodes[i].after) return cudaGraphExecUpdateErrorTopologyChanged;
        if (a.nodes[i].task->kind != b.nodes[i].task->kind) {
            return cudaGraphExecUpdateErrorNodeTypeChanged;
        }
    }
    return cudaGraphExecUpdateSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        Stream *stream = r.find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        if (stream->captured) return cudaErrorIllegalState;
        Captured &mine = stream->captured;
        mine.capture = std::make_shared<Capture>();
        mine.capture->mode = mode;
        mine.lane = mine.capture->graph.n_lanes++;
        mine.is_origin = true;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        const Stream *stream = r.find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        return end_capture(r, *stream, graph);
    });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        const Stream *stream = r.find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        const Captured &c = stream->captured;
        *status = !c                   ? cudaStreamCaptureStatusNone
                  : c.capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    return call(__func__, Needs::kDevice,
                [&](Runtime &r, Lock &) { return instantiate(r, exec, graph); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long) {
    return call(__func__, Needs::kDevice,
                [&](Runtime &r, Lock &) { return instantiate(r, exec, graph); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        Stream *stream = r.find(handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        if (r.graph_execs.count(exec) == 0) return cudaErrorInvalidValue;
        return launch(r, *exec, *stream);
    });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        if (r.find(handle) == nullptr) return cudaErrorInvalidResourceHandle;
        return r.graph_execs.count(exec) != 0 ? cudaSuccess : cudaErrorInvalidValue;
    });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo *info) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        if (r.graph_execs.count(exec) == 0 || r.graphs.count(graph) == 0) {
            return cudaErrorInvalidValue;
        }
        info->result = difference(exec->graph, *graph);
        if (info->result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
        exec->graph = *graph;
        give_lanes(r, *exec);
        return cudaSuccess;
    });
}

// Tells how many there are.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, std::size_t *n_nodes) {
    return call(__func__, Needs::kDevice, [&](Runtime &r, Lock &) {
        if (r.graphs.count(graph) == 0) return cudaErrorInvalidValue;
        *n_nodes = graph->nodes.size();
        return nodes == nullptr ? cudaSuccess : cudaErrorNotSupported;
    });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        if (r.graphs.erase(graph) == 0) return cudaErrorInvalidValue;
        delete graph;
        return cudaSuccess;
    });
}

// What it has launched still runs.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    return call(__func__, Needs::kNothing, [&](Runtime &r, Lock &) {
        if (r.graph_execs.erase(exec) == 0) return cudaErrorInvalidValue;
        for (int d = 0; d < r.machine.n_devices; ++d)
            r.device(d).used -= bytes_on(r, exec->graph, d);
        delete exec;
        return cudaSuccess;
    });
}
}
