#include "kernels/time_stamp.h"

#include "kernels/simt/simt.h"

namespace kimi {
namespace {

using namespace simt;

__global__ void __launch_bounds__(1) time_stamp_kernel(Global<std::uint64_t> at) {
    grid_dependency_wait();
    grid_dependency_launch();
    at[0] = global_timer_ns();
}

}  // namespace

void time_stamp(Global<std::uint64_t> at, Stream stream) {
    launch({.name = "time_stamp", .grid = {1}, .block = {1}, .stream = stream, .dependent = true},
           time_stamp_kernel, at);
}

}  // namespace kimi
