// The full K2.6 file set, without its data.
#include <malloc.h>
#include <sys/stat.h>

#include <chrono>
#include <ctime>

#include "engine/engine.h"
#include "model/drafter_weights.h"
#include "model/tiny.h"

using namespace kimi;

namespace {

// A line of /proc/self/status, in MB: VmRSS is what is resident now, VmHWM the most there was.
double status_mb(const std::string &key) {
    std::ifstream file("/proc/self/status");
    std::string line;
    while (std::getline(file, line))
        if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1000;
    FAIL("no " << key << " in /proc/self/status");
    return 0;
}

// Time and resident memory that f takes: at its peak, and of what it returns. The limit is on
// processor time, so that a busy machine does not fail the test; nothing waits for a disk here.
template <typename F>
void check_budget(const char *what, F &&f) {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5;  // forget the earlier peak
    const double before = status_mb("VmRSS");
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu_begin = std::clock();
    const auto kept = f();
    const double cpu = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    const double peak = status_mb("VmHWM") - before;
    MESSAGE(std::string(what) << ": " << wall.count() << " s (" << cpu << " s of processor time), "
                              << peak << " MB at the peak, " << status_mb("VmRSS") - before
                              << " MB kept");
    if (test::kInstrumented) return;
    CHECK(cpu < 5);
    CHECK(peak < 300);
}

}  // namespace

TEST_CASE("scale: the synthetic K2.6 file set has the published sizes") {
    std::uint64_t n_tensors = 0, n_text = 0, bytes = 0, file_bytes = 0;
    std::vector<std::uint64_t> sizes;
    const std::vector<synth::Shard> shards = synth::target_layout(synth::k26_shape(), true);
    for (const synth::Shard &shard : shards) {
        n_tensors += shard.tensors.size();
        for (const synth::TensorSpec &tensor : shard.tensors)
            n_text += tensor.name.starts_with("language_model.");
        bytes += shard.data_bytes();
        sizes.push_back(shard.data_bytes() + synth::safetensors_header(shard.tensors).size());
        file_bytes += sizes.back();
    }
    CHECK(shards.size() == 64);
    CHECK(shards[61].file == "model-00062-of-000064.safetensors");
    CHECK(n_tensors == 208'550);
    CHECK(n_text == 208'215);
    CHECK(bytes == 595'148'192'736);
    CHECK(file_bytes == 595'177'988'208);
    CHECK(sizes[0] == 995'001'888);
    CHECK(sizes[1] == 9'809'047'464);
    CHECK(sizes[10] == 9'809'050'936);
    CHECK(sizes[61] == 4'697'635'160);
    CHECK(sizes[62] == 108'556'344);
    CHECK(sizes[63] == 833'769'904);
    CHECK(synth::index_json(shards).size() == 23'597'438);
}

TEST_CASE("scale: the full K2.6 file set opens in seconds and little memory") {
    const test::TempDir dir;
    synth::write_target(dir.path(), synth::k26_shape(), true, {});
    std::filesystem::copy(test::data("kimi-tokenizer/tiktoken.model"), dir.path());
    std::uint64_t blocks = 0;
    for (const auto &file : std::filesystem::directory_iterator(dir.path())) {
        struct stat info {};
        REQUIRE(stat(file.path().c_str(), &info) == 0);
        blocks += static_cast<std::uint64_t>(info.st_blocks);
    }
    CHECK(blocks * 512 < 100'000'000);

    check_budget("checkpoint, config and weights", [&] {
        auto loaded = std::make_unique<test::LoadedTarget>(dir.path());
        CHECK(loaded->checkpoint.n_tensors() == 208'215);
        CHECK(loaded->weights.layers.size() == 61);
        CHECK(loaded->weights.layers[60].moe->experts.size() == 384);
        return loaded;
    });
    check_budget("whole engine", [&] {
        auto engine = std::make_unique<Engine>(dir.path(), Progress{});
        CHECK(engine->context_limit() == 262'144);
        return engine;
    });
}

TEST_CASE("scale: the synthetic drafter has the dimensions of Kimi's") {
    const test::TempDir dir;
    const ModelConfig target = synth::k26_shape();
    synth::write_drafter(dir.path(), target, {});
    const DrafterConfig config = read_drafter_config(dir.file("config.json"), target);
    CHECK(config.taps == std::vector<std::uint32_t>{1, 12, 24, 35, 47, 58});
    CHECK(config.mask_token == 163838);
    CHECK(config.n_layers() == 6);
    Checkpoint checkpoint = Checkpoint::open_drafter(dir.path());
    const DrafterWeights weights = load_drafter_weights(checkpoint, config);
    CHECK(weights.fc.cols == 43008);
    const double bytes =
        static_cast<double>(std::filesystem::file_size(dir.file("model.safetensors")));
    CHECK(bytes / (1 << 30) == doctest::Approx(6.48).epsilon(0.001));
}
