// A two-layer checkpoint with a drafter that the CUDA kernels take, for tests that open it many
// times.
#pragma once

#include "tests/cuda/engine.h"
#include "tiny_model.h"

namespace kimi::test {

class TinyCuda {
  public:
    explicit TinyCuda(const std::string &fields) {
        ModelConfig c = drafted_shape();
        c.kv_rank = 512, c.rope_dim = 64, c.expert_width = 128;
        synth::write_target(dir_.path(), c, false, 1);
        synth::write_tokenizer(dir_.path(), 256);
        std::filesystem::create_directory(dir_.file("drafter"));
        synth::write_drafter(dir_.file("drafter"), c, 1);
        path_ = dir_.write("d.json", cat(R"({"backend": "cuda", "cuda_library": ")", KIMI_CUDA_SIMT,
                                         R"(", "checkpoint": ".", "drafter": "drafter", )",
                                         R"("context_limit": 128, "speculation": {"sessions": 1, "max_nodes": 7}, )", fields,
                                         "}"));
    }
    std::shared_ptr<Engine> open(const Host &host = {}) const {
        return std::make_shared<Engine>(path_, Progress(), host);
    }

  private:
    TempDir dir_;
    std::string path_;
};

}  // namespace kimi::test
