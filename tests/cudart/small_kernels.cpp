#include "tests/cudart/small_kernels.h"

#include <utility>

#include "kernels/simt/simt.h"

namespace kimi::cudart::test {

void launch_each(const char *name, std::size_t n, simt::Stream stream,
                 std::function<void(std::ptrdiff_t)> body) {
    constexpr unsigned kThreads = 32;
    const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
    simt::host::submit(
        {name, {blocks}, {kThreads}, 0, stream, false, false, [n, body = std::move(body)] {
             const std::size_t i = blockIdx.x * kThreads + threadIdx.x;
             if (i < n) body(static_cast<std::ptrdiff_t>(i));
         }});
}

void add(const int *x, int *y, int a, std::size_t n, simt::Stream stream) {
    launch_each("add", n, stream,
                [x = simt::Global<const int>(x), y = simt::Global<int>(y), a](std::ptrdiff_t i) {
                    const int v = x[i];
                    y[i] = v + a;
                });
}

void meet(int *flags, int mine, int other, int value, simt::Stream stream) {
    launch_each("meet", 1, stream, [=, f = simt::Global<int>(flags)](std::ptrdiff_t) {
        simt::store_release_system(f + mine, value);
        while (simt::load_acquire_system<int>(f + other) < value) {
        }
    });
}

}  // namespace kimi::cudart::test
