// A two-layer checkpoint that the CUDA kernels take, for tests that open it many times.
#pragma once

#include <functional>

#include "model/tiny.h"
#include "tests/cuda/engine.h"

namespace kimi::test {

class TinyCuda {
  public:
    // change: to what is written.
    explicit TinyCuda(const std::string &fields,
                      const std::function<void(TinyCheckpoint &)> &change = {}) {
        ModelConfig c = tiny_shape();
        c.kv_rank = 512, c.rope_dim = 64, c.expert_width = 128, c.dense_width = 64;
        TinyCheckpoint checkpoint;
        checkpoint.config = nlohmann::ordered_json::parse(synth::target_config(c));
        checkpoint.shards = synth::target_layout(c, false);
        if (change) change(checkpoint);
        checkpoint.write(dir_);
        path_ = dir_.write("d.json",
                           cat(R"({"backend": "cuda", "cuda_library": ")", KIMI_CUDA_SIMT,
                               R"(", "checkpoint": ".", "context_limit": 128, )", fields, "}"));
    }
    std::shared_ptr<Engine> open() const { return std::make_shared<Engine>(path_, Progress()); }

  private:
    TempDir dir_;
    std::string path_;
};

}  // namespace kimi::test
