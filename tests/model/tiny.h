// A random checkpoint of a few hundred kilobytes that tests change before they write and load it.
#pragma once

#include <map>
#include <memory>
#include <numeric>

#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels.h"
#include "check.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/target.h"
#include "model/target_weights.h"
#include "tiny_model.h"
#include "tools/synth/random_weights.h"

namespace kimi::test {

struct TinyCheckpoint {
    nlohmann::ordered_json config =
        nlohmann::ordered_json::parse(synth::target_config(tiny_shape()));
    std::vector<synth::Shard> shards = synth::target_layout(tiny_shape(), false);
    std::map<std::string, std::string> data;  // of tensors whose contents are not random

    // The shard whose tensor has this name, and the tensor.
    std::pair<synth::Shard *, synth::TensorSpec *> find(const std::string &name) {
        for (synth::Shard &shard : shards)
            for (synth::TensorSpec &tensor : shard.tensors)
                if (tensor.name == name) return {&shard, &tensor};
        FAIL("no tensor " << name);
        return {};
    }
    synth::TensorSpec &tensor(const std::string &name) { return *find(name).second; }
    std::string bytes(const synth::TensorSpec &tensor) const {
        const auto at = data.find(tensor.name);
        return at == data.end() ? synth::random_bytes(tensor, 1) : at->second;
    }
    void remove(const std::string &name) {
        std::erase_if(find(name).first->tensors, [&](auto &tensor) { return tensor.name == name; });
    }
    // The names without this beginning; the contents stay.
    void drop_prefix(const std::string &prefix) {
        for (synth::Shard &shard : shards)
            for (synth::TensorSpec &tensor : shard.tensors)
                if (tensor.name.starts_with(prefix)) {
                    std::string contents = bytes(tensor);
                    tensor.name.erase(0, prefix.size());
                    data[tensor.name] = std::move(contents);
                }
    }

    void write(const TempDir &dir) const {
        dir.write("config.json", config.dump());
        dir.write("model.safetensors.index.json", synth::index_json(shards));
        synth::write_tokenizer(dir.path(), 256);
        for (const synth::Shard &shard : shards) {
            std::string text = synth::safetensors_header(shard.tensors);
            for (const synth::TensorSpec &tensor : shard.tensors) text += bytes(tensor);
            dir.write(shard.file, text);
        }
    }
};

// A checkpoint folder's target, loaded.
struct LoadedTarget {
    explicit LoadedTarget(const std::string &folder)
        : config(read_model_config(folder + "/config.json")),
          checkpoint(Checkpoint::open_target(folder)),
          weights(load_target_weights(checkpoint, config, config.rms_eps)) {}

    ModelConfig config;
    Checkpoint checkpoint;
    TargetWeights weights;

    // After the last of ten tokens.
    std::vector<float> logits() const {
        constexpr std::uint32_t kRows = 10;
        const std::unique_ptr<Device> device = make_cpu_device(best_cpu_isa(), 1);
        Target target(*device, config, weights, kRows, 1);
        DeviceLimits limits = target.limits();
        limits.rows = limits.context = kRows;
        limits.kv.n_pages = 1;
        device->reserve(limits);
        std::vector<std::int32_t> token;
        std::vector<std::uint32_t> position, base;
        for (std::uint32_t i = 0; i < kRows; ++i) {
            token.push_back(static_cast<std::int32_t>(37 * i));
            position.push_back(i);
            base.push_back(i + 1);
        }
        const std::vector<std::uint64_t> word(kRows);
        const std::uint32_t page = 0, last = kRows - 1;
        const PlanSequence sequence{0, kRows, {&page, 1}};
        target.forward({token, position, position, base, word, {&sequence, 1}, {&last, 1}});
        return {target.logits(0).begin(), target.logits(0).end()};
    }
};

inline LoadedTarget load(const TinyCheckpoint &checkpoint) {
    const TempDir dir;
    checkpoint.write(dir);
    return LoadedTarget(dir.path());  // the files stay mapped
}

// The error of loading, with the folder's name cut out of its text.
inline Error load_error(const TinyCheckpoint &checkpoint) {
    const TempDir dir;
    checkpoint.write(dir);
    Error error = error_of([&] { LoadedTarget target(dir.path()); });
    const std::size_t at = error.text.find(dir.path() + "/");
    if (at == 0) error.text.erase(0, dir.path().size() + 1);
    return error;
}

}  // namespace kimi::test
