// The work of a device, in order, and marks in it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "backend/cuda/check.h"

namespace kimi::cuda {

class Stream {
  public:
    // On the current device.
    Stream() {
        cudaStream_t stream = nullptr;
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
        stream_.reset(stream);
    }
    operator cudaStream_t() const { return stream_.get(); }

  private:
    struct Destroy {
        void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
    };
    std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
};

class Event {
  public:
    explicit Event(unsigned flags = cudaEventDisableTiming) {
        cudaEvent_t event = nullptr;
        check(cudaEventCreateWithFlags(&event, flags), "making an event");
        event_.reset(event);
    }
    operator cudaEvent_t() const { return event_.get(); }

    void record(cudaStream_t stream) {
        check(cudaEventRecord(*this, stream), "recording an event");
    }
    // Until the work before it is done; at once where it was never recorded.
    void wait() const { check(cudaEventSynchronize(*this), "waiting for an event"); }

  private:
    struct Destroy {
        void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
    };
    std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

}  // namespace kimi::cuda
