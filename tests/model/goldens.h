// The stored fp64 results of the reference.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backend/device.h"
#include "check.h"
#include "model/safetensors.h"

namespace kimi::test {

class Goldens {
  public:
    Goldens()
        : file_(data("nano-k2/forward.safetensors")),
          json_(read_json(data("nano-k2/forward.json"))) {
        tensors_ = read_safetensors(file_);
    }
    const std::vector<Json> &prompts() const { return json_.find("prompts")->items; }
    std::vector<float> tensor(const std::string &name) const {
        const auto at = std::find_if(tensors_.begin(), tensors_.end(),
                                     [&](const Tensor &t) { return t.name == name; });
        REQUIRE(at != tensors_.end());
        std::vector<float> out(at->bytes / sizeof(float));
        std::memcpy(out.data(), at->data, at->bytes);
        return out;
    }
    // How close an engine must come, as the goldens' README states.
    static double tolerance(const Json &prompt, KvType kv, const char *what) {
        const Json &change = *prompt.find("largest_change");
        if (kv == KvType::f32) return std::max(1e-3, 20 * change.find("fp32")->find(what)->real);
        return std::max(0.05, 3 * change.find("kv_bf16")->find(what)->real);
    }

  private:
    MappedFile file_;
    Json json_;
    std::vector<Tensor> tensors_;
};

}  // namespace kimi::test
