// A random model of a few hundred kilobytes, with a drafter: loading it takes milliseconds.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "model/config.h"
#include "tools/synth/layout.h"
#include "tools/synth/write.h"

namespace kimi::test {

// A dense layer and one with four experts.
inline ModelConfig tiny_shape() {
    ModelConfig c = synth::k26_shape();
    c.n_layers = 2, c.hidden = 64, c.n_heads = 2, c.vocab = 512;
    c.q_rank = 32, c.kv_rank = 64, c.nope_dim = 16, c.rope_dim = 16, c.v_dim = 16;
    c.dense_width = 96, c.n_experts = 4, c.top_k = 2, c.expert_width = 32;
    return c;
}

// The smallest that a drafter fits, and that two ranks can share.
inline ModelConfig drafted_shape() {
    ModelConfig c = tiny_shape();
    c.nope_dim = 32, c.dense_width = 128, c.expert_width = 64;
    return c;
}

// Writes such a model to a folder, and its drafter to the subfolder "drafter". The drafter's window
// is shorter than most sequences.
inline void write_tiny_model(const std::string &folder) {
    synth::write_target(folder, drafted_shape(), false, 1);
    synth::write_tokenizer(folder, 256);
    const std::string drafter = folder + "/drafter";
    std::filesystem::create_directory(drafter);
    synth::write_drafter(drafter, drafted_shape(), 1);
    std::string config = synth::drafter_config(drafted_shape());
    const std::string window = "\"sliding_window\": ";
    config.replace(config.find(window + "2048"), window.size() + 4, window + "100");
    synth::write_text(drafter + "/config.json", config);
}

}  // namespace kimi::test
