#include "tests/cudart/control.h"

#include "base/error.h"
#include "tests/cudart/runtime.h"

namespace kimi::cudart {

void fail_nth(const std::string &name, std::uint64_t n, int status, bool and_later) {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    r.injected[name] = {n, status, and_later};
}

void fail_no_more() {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    r.injected.clear();
    r.has_failed = false;
}

void skip_kernels(const std::string &name) {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    r.skipped_kernel = name;
}

std::uint64_t n_calls(const std::string &name) {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    return r.counts[name];
}

std::vector<std::string> called() {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    std::vector<std::string> names;
    for (const auto &[name, n] : r.counts)
        if (!name.empty() && n > 0) names.push_back(name);
    return names;
}

Live live() {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    r.forget_drained_streams();
    Live now;
    for (const auto &[base, a] : r.allocations) {
        if (a.device < 0) {
            ++now.host_allocations;
        } else {
            ++now.allocations;
            now.bytes += a.memory->bytes;
        }
    }
    for (const Stream *s : r.streams) now.streams += !s->destroyed;
    now.events = r.events.size();
    now.graphs = r.graphs.size();
    now.graph_execs = r.graph_execs.size();
    for (const GraphExec *g : r.graph_execs)
        now.graph_bytes += g->graph.nodes.size() * r.machine.graph_node_bytes;
    now.communicators = r.communicators.size();
    return now;
}

std::string leaks(const Live &before) {
    const Live now = live();
    std::string text;
    const auto compare = [&text](const char *what, std::size_t was, std::size_t is) {
        if (is != was) text += cat(text.empty() ? "" : ", ", what, ": ", was, " before, now ", is);
    };
    compare("allocations", before.allocations, now.allocations);
    compare("bytes", before.bytes, now.bytes);
    compare("host allocations", before.host_allocations, now.host_allocations);
    compare("streams", before.streams, now.streams);
    compare("events", before.events, now.events);
    compare("graphs", before.graphs, now.graphs);
    compare("executable graphs", before.graph_execs, now.graph_execs);
    compare("communicators", before.communicators, now.communicators);
    return text;
}

std::string last_fault() {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    return r.fault;
}

std::uint64_t n_kernels() {
    Runtime &r = runtime();
    const Lock lock(r.mutex());
    return r.engine.n_kernels();
}

}  // namespace kimi::cudart
