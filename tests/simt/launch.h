// launch() on the CPU: hands the kernel to whoever collects launches on this OS thread.
#pragma once

#include <functional>
#include <string>

#include "kernels/simt/launch.h"

namespace kimi::simt {
namespace host {

struct Launch {
    std::string name;
    Dim3 grid, block;
    std::size_t shared_bytes = 0;
    Stream stream = nullptr;
    bool dependent = false, cooperative = false;
    std::function<void()> body;  // one thread of the kernel; reads its place from the executor

    std::uint64_t n_blocks() const { return std::uint64_t{grid.x} * grid.y * grid.z; }
    unsigned n_threads() const { return block.x * block.y * block.z; }
};

// A test's run() or a stand-in for the CUDA runtime.
class LaunchSink {
  public:
    virtual ~LaunchSink() = default;
    virtual void launch(Launch launch) = 0;
};
// Sets the sink of this OS thread and returns the one before.
LaunchSink *set_launch_sink(LaunchSink *sink);
// Throws kimi::Error if there is no sink.
void submit(Launch launch);

}  // namespace host

template <typename... Params, typename... Args>
void launch(const LaunchConfig &config, void (*kernel)(Params...), const Args &...args) {
    host::submit({config.name, config.grid, config.block, config.shared_bytes, config.stream,
                  config.dependent, config.cooperative,
                  [kernel, ... params = static_cast<Params>(args)] { kernel(params...); }});
}

}  // namespace kimi::simt
