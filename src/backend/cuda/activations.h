// Activations in device memory: every buffer is fp32 and, beside that, bf16. Products read the
// latter, sums are made in the former; an operation's formula says which one it writes.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "backend/cuda/memory.h"
#include "backend/device.h"
#include "base/bf16.h"

namespace kimi::cuda {

class Activations {
  public:
    Buffer alloc(std::uint32_t rows, std::uint32_t width) {
        const std::size_t n = std::size_t{rows} * width;
        arrays_.push_back({{n, "activations"}, {n, "activations"}});
        return {arrays_.back().f32.data(), width};
    }
    // The bf16 side of an element of a buffer.
    bf16 *narrow(const float *element) const {
        const std::less<> before;
        const auto found = std::find_if(arrays_.begin(), arrays_.end(), [&](const Both &both) {
            const float *const begin = both.f32.data();
            return !before(element, begin) && before(element, begin + both.f32.size());
        });
        KIMI_CHECK(found != arrays_.end());
        return found->narrow.data() + (element - found->f32.data());
    }

  private:
    struct Both {
        DeviceArray<float> f32;
        DeviceArray<bf16> narrow;
    };
    std::vector<Both> arrays_;
};

}  // namespace kimi::cuda
