#include "tests/cudart/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "tests/cudart/launch.h"

namespace kimi::cudart {
namespace {

std::unique_ptr<Runtime> &instance() {
    static std::unique_ptr<Runtime> runtime;
    return runtime;
}
std::atomic<std::uint64_t> n_starts{0};

}  // namespace

void start(const Machine &machine) {
    instance().reset();
    ++n_starts;
    instance() = std::make_unique<Runtime>(machine);
}

Runtime &runtime() {
    static std::once_flag once;
    std::call_once(once, [] {
        if (!instance()) start(Machine());
    });
    return *instance();
}

Runtime::Runtime(const Machine &m)
    : machine(m),
      devices(static_cast<std::size_t>(std::max(1, m.n_devices))),  // threads are on one anyway
      engine(m, {.error_of = [this](int d) { return device(d).error; },
                 .broken =
                     [this](int d, cudaError_t error, std::string why) {
                         fault = std::move(why);
                         if (device(d).error == cudaSuccess) device(d).error = error;
                     },
                 .last_ops =
                     [this] {
                         std::vector<OpPtr> ops;
                         for (int d = 0; d < machine.n_devices; ++d)
                             for (OpPtr &op : last_of(d)) ops.push_back(std::move(op));
                         return ops;
                     },
                 .kernel_begins = [this] { return static_cast<cudaError_t>(count("kernel")); },
                 .skips = [this](const std::string &kernel) { return skipped_kernel == kernel; },
                 .patience_s = [this] { return patience_s(); }}) {
    for (int d = 0; d < m.n_devices; ++d) {
        device(d).reaches = std::uint64_t{1} << d;
        device(d).legacy = std::make_unique<Stream>();
        device(d).legacy->device = d;
        device(d).legacy->lane = engine.new_lane();
    }
}

Runtime::~Runtime() {
    engine.stop();
    for (const auto &[base, allocation] : allocations) {
        simt::host::release_memory(allocation.memory);
        std::free(base);
    }
    for (Stream *s : streams) delete s;
    for (Event *e : events) delete e;
    for (Graph *g : graphs) delete g;
    for (GraphExec *g : graph_execs) delete g;
}

OfThread &Runtime::of_thread() {
    thread_local OfThread mine;
    if (mine.start != n_starts) {
        mine = {n_starts, 0, cudaSuccess};
        collect_launches_of_this_thread();
    }
    return mine;
}

int Runtime::count(const std::string &name) {
    int status = 0;
    for (const std::string &n : {name, std::string()}) {
        if (n.empty() && name == "kernel") break;  // not a call
        ++counts[n];
        const auto found = injected.find(n);
        if (found == injected.end() || found->second.n == 0) continue;
        Injected &i = found->second;
        if (--i.n > 0) continue;
        status = i.status;
        has_failed = true;
        if (i.and_later) i.n = 1;
    }
    return status;
}

cudaError_t Runtime::refused(cudaError_t error, const std::string &why) {
    fault = why;
    return error;
}

Stream *Runtime::find(cudaStream_t handle) {
    if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
        fault = "work on a default stream";
        return nullptr;
    }
    if (streams.count(handle) == 0 || handle->destroyed) {
        fault = "work on a stream that does not exist";
        return nullptr;
    }
    return handle;
}

// ---- order

cudaError_t Runtime::append(Stream &s, Task what, const std::vector<OpPtr> &also) {
    const auto task = std::make_shared<const Task>(std::move(what));
    if (s.captured) {
        if (s.captured.capture->invalid) return cudaErrorStreamCaptureInvalidated;
        s.captured.add(task, s.device);
        return cudaSuccess;
    }
    std::vector<OpPtr> before = also;
    before.push_back(s.last);
    Stream *const legacy = device(s.device).legacy.get();
    if (&s == legacy) {
        for (OpPtr &op : last_of(s.device, true)) before.push_back(std::move(op));
    } else if ((s.flags & cudaStreamNonBlocking) == 0) {
        before.push_back(legacy->last);
    }
    s.last = engine.add(s.device, task, s.lane, before);
    return cudaSuccess;
}

bool Runtime::breaks_captures() {
    bool any = false;
    for (const Stream *s : streams) {
        if (!s->captured || !s->captured.capture->forbids_waiting()) continue;
        any = s->captured.capture->invalid = true;
    }
    return any;
}

std::vector<OpPtr> Runtime::last_of(int d, bool blocking_only) const {
    std::vector<OpPtr> ops;
    for (const Stream *s : streams) {
        if (s->device != d || s->last == nullptr) continue;
        if (!blocking_only || (s->flags & cudaStreamNonBlocking) == 0) ops.push_back(s->last);
    }
    const auto &legacy = devices[static_cast<std::size_t>(d)].legacy;
    if (!blocking_only && legacy->last != nullptr) ops.push_back(legacy->last);
    return ops;
}

void Runtime::wait_device(Lock &lock, int d) {
    const std::vector<OpPtr> ops = last_of(d);
    for (const OpPtr &op : ops) engine.want(op);
    for (const OpPtr &op : ops) engine.wait(lock, op);
    forget_drained_streams();
}

void Runtime::forget_drained_streams() {
    std::erase_if(streams, [](Stream *s) {
        if (!s->destroyed || (s->last != nullptr && !s->last->done)) return false;
        delete s;
        return true;
    });
}

// ---- memory

void Runtime::release(void *base) {
    const auto found = allocations.find(base);
    if (found == allocations.end()) return;  // by another thread, meanwhile
    const auto [d, memory] = found->second;
    if (d >= 0) device(d).used -= memory->bytes;
    simt::host::release_memory(memory);
    std::free(base);
    allocations.erase(found);
}

std::uint64_t Runtime::visible_to(int d) const {
    std::uint64_t mask = 0;
    for (std::size_t i = 0; i < devices.size(); ++i) mask |= (devices[i].reaches >> d & 1U) << i;
    return mask;
}

void Runtime::update_visibility(int d) {
    const std::uint64_t mask = visible_to(d);
    for (const auto &[base, a] : allocations)
        if (a.device == d) a.memory->visible_to = mask;
}

void Runtime::reset(Lock &lock, int d) {
    device(d).error = cudaErrorDeviceUninitialized;  // nothing of it runs any more
    wait_device(lock, d);
    engine.between_rounds(lock, [this, d] {
        std::vector<void *> owned;
        for (const auto &[base, a] : allocations)
            if (a.device == d) owned.push_back(base);
        for (void *base : owned) release(base);
        std::erase_if(streams, [d](Stream *s) { return s->device == d && (delete s, true); });
        std::erase_if(events, [d](Event *e) { return e->device == d && (delete e, true); });
        device(d).legacy->last = nullptr;
        device(d).reaches = std::uint64_t{1} << d;
        device(d).error = cudaSuccess;
        for (int peer = 0; peer < machine.n_devices; ++peer) update_visibility(peer);
    });
}

}  // namespace kimi::cudart
