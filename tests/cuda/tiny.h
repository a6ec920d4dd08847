// A two-layer checkpoint with a drafter that the CUDA kernels take, for tests that open it many
// times.
#pragma once

#include <functional>

#include "engine/sessions.h"
#include "model/tiny.h"
#include "tests/cuda/engine.h"
#include "tiny_model.h"

namespace kimi::test {

inline std::vector<std::int32_t> tiny_tokens(std::size_t n, std::uint32_t seed) {
    std::vector<std::int32_t> tokens = some_tokens(n, seed);
    for (std::int32_t &token : tokens) token %= 256;  // its vocabulary
    return tokens;
}

class TinyCuda {
  public:
    // change: to the target before it is written.
    explicit TinyCuda(const std::string &fields, std::uint32_t draft_sessions = 1,
                      const std::function<void(TinyCheckpoint &)> &change = {},
                      const std::string &kv_type = "bf16") {
        ModelConfig c = drafted_shape();
        c.kv_rank = 512, c.rope_dim = 64, c.expert_width = 128;
        TinyCheckpoint checkpoint;
        checkpoint.config = nlohmann::ordered_json::parse(synth::target_config(c));
        checkpoint.shards = synth::target_layout(c, false);
        if (change) change(checkpoint);
        checkpoint.write(dir_);
        std::filesystem::create_directory(dir_.file("drafter"));
        synth::write_drafter(dir_.file("drafter"), c, 1);
        const std::string model = cat(
            R"("checkpoint": ".", "drafter": "drafter", "context_limit": 128,
               "kv": {"type": ")",
            kv_type, R"(", "capacity_tokens": )", 128 * draft_sessions,
            R"(}, "speculation": {"max_nodes": 7, "sessions": )", draft_sessions, "}");
        path_ = dir_.write("d.json", cat(R"({"backend": "cuda", "cuda_library": ")", KIMI_CUDA_SIMT,
                                         R"(", )", model, ", ", fields, "}"));
    }
    const std::string &path() const { return path_; }
    std::shared_ptr<Engine> open(const Host &host = {}) const {
        return std::make_shared<Engine>(path_, Progress(), host);
    }

  private:
    TempDir dir_;
    std::string path_;
};

}  // namespace kimi::test
