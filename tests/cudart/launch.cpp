#include "tests/cudart/launch.h"

#include "base/error.h"
#include "kernels/simt/check_launch.h"
#include "tests/cudart/runtime.h"

namespace kimi::cudart {
namespace {

cudaError_t enqueue(Runtime &r, simt::host::Launch launch) {
    Stream *stream = r.find(launch.stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->device != Runtime::of_thread().device) {
        return r.refused(cudaErrorInvalidResourceHandle,
                         cat("launch of ", launch.name, " on a stream of another device"));
    }
    simt::host::Options options;
    options.resident_blocks = static_cast<unsigned>(r.machine.n_sms);
    const std::string why = simt::host::LaunchRun(launch, options).refusal();
    if (!why.empty()) return r.refused(cudaErrorInvalidConfiguration, cat(launch.name, ": ", why));
    std::string name = cat("kernel ", launch.name);
    return r.append(*stream, {Task::Kind::kKernel, std::move(name), std::move(launch)});
}

class ToStreams : public simt::host::LaunchSink {
  public:
    void launch(simt::host::Launch launch) override {
        const std::string name = launch.name;
        const cudaError_t status = call("launch", Needs::kDevice, [&](Runtime &r, Lock &) {
            return enqueue(r, std::move(launch));
        });
        simt::check_launch(status, name.c_str());
    }
};

}  // namespace

void collect_launches_of_this_thread() {
    static ToStreams sink;
    simt::host::set_launch_sink(&sink);
}

}  // namespace kimi::cudart
