// The state behind the CUDA runtime's functions.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/cudart/capture.h"
#include "tests/cudart/engine.h"

struct ncclComm;

struct CUstream_st {
    int device = 0;
    unsigned flags = 0;
    std::size_t lane = 0;
    kimi::cudart::OpPtr last;
    kimi::cudart::Captured captured;
    bool destroyed = false;  // but not done yet
};

struct CUevent_st {
    int device = 0;
    unsigned flags = 0;
    kimi::cudart::OpPtr recorded;
    kimi::cudart::Captured captured;  // if last recorded there
};

namespace kimi::cudart {

using Stream = ::CUstream_st;
using Event = ::CUevent_st;

struct Allocation {
    int device;  // -1: of the host
    simt::host::Memory *memory;
};

struct Device {
    cudaError_t error = cudaSuccess;  // that has broken it
    std::size_t used = 0;             // bytes
    std::uint64_t reaches = 0;        // devices whose memory it has access to, itself included
    std::unique_ptr<Stream> legacy;   // of cudaMemcpy and cudaMemset
};

// What the runtime keeps for a host thread.
struct OfThread {
    std::uint64_t start = 0;  // of the machine
    int device = 0;
    cudaError_t error = cudaSuccess;  // the last one
};

struct Injected {
    std::uint64_t n = 0;  // calls until it fails; 0: never
    int status = 0;
    bool and_later = false;
};

class Runtime {
  public:
    explicit Runtime(const Machine &machine);
    Runtime(const Runtime &) = delete;
    ~Runtime();

    // Everything below, with the mutex held.
    std::mutex &mutex() { return engine.mutex; }

    // Counts a call and gives the error that the test wants, or 0.
    int count(const std::string &name);
    cudaError_t refused(cudaError_t error, const std::string &why);
    bool has(int device) const { return device >= 0 && device < machine.n_devices; }
    Device &current() { return device(of_thread().device); }
    Device &device(int i) { return devices[static_cast<std::size_t>(i)]; }
    static OfThread &of_thread();
    // The stream behind a handle, or null after saying why not.
    Stream *find(cudaStream_t handle);

    // Appends to what the stream runs, or captures.
    cudaError_t append(Stream &stream, Task task, const std::vector<OpPtr> &also = {});
    // Ends the captures that a call which may wait breaks, and says whether there are any.
    bool breaks_captures();
    // What a synchronisation of the device waits for.
    std::vector<OpPtr> last_of(int device, bool blocking_only = false) const;
    void wait_device(Lock &lock, int device);

    // Between the engine's rounds.
    void release(void *base);
    void forget_drained_streams();
    std::uint64_t visible_to(int device) const;
    void update_visibility(int device);
    // Frees everything of it.
    void reset(Lock &lock, int device);
    double patience_s() const {
        const double after = machine.patience_after_failure_s;
        return has_failed && after > 0 ? after : machine.patience_s;
    }

    const Machine machine;
    std::vector<Device> devices;
    std::map<void *, Allocation> allocations;
    std::set<Stream *> streams;
    std::set<Event *> events;
    std::set<Graph *> graphs;
    std::set<GraphExec *> graph_execs;
    std::set<::ncclComm *> communicators;
    std::map<std::uint64_t, std::shared_ptr<Ranks>> forming;  // communicators, by unique id
    std::condition_variable ranks_joined;
    std::map<std::string, std::uint64_t> counts;
    std::map<std::string, Injected> injected;
    bool has_failed = false;  // one of them
    std::string fault, skipped_kernel;
    std::uint64_t n_allocated = 0, n_copies = 0;  // for names
    std::uint64_t n_unique_ids = 0;
    Engine engine;  // ends first
};

Runtime &runtime();

// What a call fails without: a device that is not broken, no capture that forbids waiting.
enum class Needs : std::uint8_t { kNothing, kDevice, kNoCapture, kDeviceAndNoCapture };

// A function of the runtime: counts it, fails it where the test wants, and remembers its error.
template <typename Body>
cudaError_t call(const char *name, Needs needs, Body &&body) {
    Runtime &r = runtime();
    Lock lock(r.mutex());
    OfThread &mine = Runtime::of_thread();
    auto status = static_cast<cudaError_t>(r.count(name));
    if (r.engine.is_this_thread()) status = cudaErrorNotPermitted;
    const bool device = needs == Needs::kDevice || needs == Needs::kDeviceAndNoCapture;
    const bool no_capture = needs == Needs::kNoCapture || needs == Needs::kDeviceAndNoCapture;
    if (status == cudaSuccess && device) {
        status = r.machine.n_devices > 0 ? r.current().error : cudaErrorNoDevice;
    }
    if (status == cudaSuccess && no_capture && r.breaks_captures()) {
        status = cudaErrorStreamCaptureUnsupported;
    }
    if (status == cudaSuccess) {
        try {
            status = body(r, lock);
        } catch (const std::bad_alloc &) {
            status = cudaErrorMemoryAllocation;
        }
    }
    if (status != cudaSuccess) mine.error = status;
    return status;
}

}  // namespace kimi::cudart
