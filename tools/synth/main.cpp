// kimi-synth: writes a random checkpoint of a given shape in K2.6's layout.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tools/synth/layout.h"
#include "tools/synth/write.h"

using namespace kimi;
using namespace kimi::synth;

namespace {

constexpr char kUsage[] =
    R"(usage: kimi-synth [OPTIONS] FOLDER

Writes a random checkpoint in the layout of Kimi K2.6 to FOLDER, which must be new or empty:
config.json, the safetensors shards with their index, and a tiktoken.model.

  --preset NAME     shape to start from: k2.6-small (default; 1.5 GB, K2.6's proportions of the
                    bytes read per token) or k2.6
  --sparse          full-size files without data: they take no disk space and hold zeros
  --vision          also write the projector and the vision tower
  --drafter         also write FOLDER/drafter, a random DFlash drafter, and FOLDER/deployment.json
  --tokenizer DIR   copy DIR/tiktoken.model, cut to the vocabulary; default: a generated one
  --seed N          of the weights; default 0
  --help

Dimensions that differ from the preset's:
)";

struct Dimension {
    std::string_view option;
    std::uint32_t ModelConfig::*field;
    const char *help;
};
constexpr Dimension kDimensions[] = {
    {"--layers", &ModelConfig::n_layers, "layers"},
    {"--dense-layers", &ModelConfig::n_dense_layers, "of these, without experts"},
    {"--hidden", &ModelConfig::hidden, "hidden size"},
    {"--vocab", &ModelConfig::vocab, "token ids, 256 special ones included"},
    {"--heads", &ModelConfig::n_heads, "attention heads"},
    {"--q-rank", &ModelConfig::q_rank, "q_lora_rank"},
    {"--kv-rank", &ModelConfig::kv_rank, "kv_lora_rank"},
    {"--nope-dim", &ModelConfig::nope_dim, "qk_nope_head_dim"},
    {"--rope-dim", &ModelConfig::rope_dim, "qk_rope_head_dim"},
    {"--v-dim", &ModelConfig::v_dim, "v_head_dim"},
    {"--dense-width", &ModelConfig::dense_width, "inner width of the dense layers"},
    {"--experts", &ModelConfig::n_experts, "routed experts per layer"},
    {"--top-k", &ModelConfig::top_k, "of these, used for a token"},
    {"--expert-width", &ModelConfig::expert_width, "inner width of an expert"},
    {"--shared-experts", &ModelConfig::n_shared_experts, "shared experts per layer"},
    {"--context", &ModelConfig::max_position, "max_position_embeddings"},
};

ModelConfig small_shape() {
    ModelConfig c = k26_shape();
    c.n_layers = 12, c.hidden = 2048, c.n_heads = 8, c.vocab = 8192, c.q_rank = 512;
    c.dense_width = 1024, c.n_experts = 64, c.expert_width = 512;
    return c;
}

struct Options {
    ModelConfig shape = small_shape();
    bool sparse = false, vision = false, drafter = false;
    std::uint64_t seed = 0;
    std::string tokenizer, folder;
};

template <typename T>
T number(std::string_view option, std::string_view text) {
    T out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size())
        fail(KIMI_INVALID_ARGUMENT, option, " is \"", text, "\", must be a natural number");
    return out;
}

ModelConfig preset(std::string_view name) {
    if (name == "k2.6") return k26_shape();
    if (name == "k2.6-small") return small_shape();
    fail(KIMI_INVALID_ARGUMENT, "--preset is \"", name, "\", must be k2.6-small or k2.6");
}

// Takes the arguments of one option off the front.
void read_option(Options &o, std::span<char *> &args) {
    const std::string_view option = args[0];
    args = args.subspan(1);
    const auto value = [&] {
        if (args.empty()) fail(KIMI_INVALID_ARGUMENT, option, " needs a value");
        const char *text = args[0];
        args = args.subspan(1);
        return std::string_view(text);
    };
    for (const Dimension &d : kDimensions)
        if (option == d.option) {
            o.shape.*d.field = number<std::uint32_t>(option, value());
            return;
        }
    if (option == "--preset") {
        o.shape = preset(value());
    } else if (option == "--sparse") {
        o.sparse = true;
    } else if (option == "--vision") {
        o.vision = true;
    } else if (option == "--drafter") {
        o.drafter = true;
    } else if (option == "--seed") {
        o.seed = number<std::uint64_t>(option, value());
    } else if (option == "--tokenizer") {
        o.tokenizer = value();
    } else if (!option.starts_with('-') && o.folder.empty()) {
        o.folder = option;
    } else {
        fail(KIMI_INVALID_ARGUMENT, "unexpected argument ", option, "; see --help");
    }
}

void write_cut_tokenizer(const Options &o, std::uint32_t n_ranks) {
    const std::string text = read_file(o.tokenizer + "/tiktoken.model", std::size_t{1} << 28);
    std::size_t end = 0;
    for (std::uint32_t rank = 0; rank < n_ranks && end < text.size(); ++rank)
        end = std::min(text.find('\n', end), text.size() - 1) + 1;
    write_text(o.folder + "/tiktoken.model", std::string_view(text).substr(0, end));
}

void write_all(const Options &o) {
    const Seed seed = o.sparse ? Seed() : o.seed;
    // Fails with the field's name where the shape is impossible.
    parse_model_config(target_config(o.shape), "the shape");
    if (o.shape.vocab < 512)
        fail(KIMI_INVALID_ARGUMENT, "--vocab is ", o.shape.vocab, ", must be at least 512");
    namespace fs = std::filesystem;
    if (fs::exists(o.folder) && (!fs::is_directory(o.folder) || !fs::is_empty(o.folder)))
        fail(KIMI_INVALID_ARGUMENT, o.folder, ": exists and is not an empty folder");
    fs::create_directories(o.folder);
    write_target(o.folder, o.shape, o.vision, seed);
    if (o.tokenizer.empty()) {
        write_tokenizer(o.folder, o.shape.vocab - 256);
    } else {
        write_cut_tokenizer(o, o.shape.vocab - 256);
    }
    if (!o.drafter) return;
    fs::create_directory(o.folder + "/drafter");
    write_drafter(o.folder + "/drafter", o.shape, seed);
    write_text(o.folder + "/deployment.json",
               "{\n  \"checkpoint\": \".\",\n  \"drafter\": \"drafter\"\n}\n");
}

// The part of the model that a text tensor belongs to.
const char *part_of(std::string_view name) {
    const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
    if (has(".experts.")) return "routed experts";
    if (has(".shared_experts.")) return "shared expert";
    if (has(".mlp.gate.")) return "router";
    if (has(".mlp.")) return "dense layers";
    if (has("lm_head")) return "head";
    return has("embed_tokens") ? nullptr : "attention and norms";
}

void print_summary(const Options &o, double seconds) {
    std::uint64_t total = 0, n_tensors = 0, read = 0;
    std::map<std::string, std::uint64_t> parts;
    const std::vector<Shard> shards = target_layout(o.shape, o.vision);
    for (const Shard &shard : shards)
        for (const TensorSpec &tensor : shard.tensors) {
            total += tensor.bytes();
            ++n_tensors;
            const bool is_text = tensor.name.starts_with("language_model.");
            const char *part = is_text ? part_of(tensor.name) : nullptr;
            if (part == nullptr) continue;
            const bool routed = tensor.name.find(".experts.") != std::string::npos;
            parts[part] += tensor.bytes() * (routed ? o.shape.top_k : o.shape.n_experts);
        }
    for (auto &[part, bytes] : parts) read += bytes /= o.shape.n_experts;
    std::printf("%s: %zu shards, %llu tensors, %.3f GB in %.1f s\n", o.folder.c_str(),
                shards.size(), static_cast<unsigned long long>(n_tensors),
                static_cast<double>(total) * 1e-9, seconds);
    std::printf("weights read per token: %.1f MB\n", static_cast<double>(read) * 1e-6);
    for (const auto &[part, bytes] : parts)
        std::printf("  %-20s %8.1f MB  %4.1f %%\n", part.c_str(), static_cast<double>(bytes) * 1e-6,
                    100 * static_cast<double>(bytes) / static_cast<double>(read));
}

int run(std::span<char *> args) {
    Options options;
    for (const std::string_view arg : args)
        if (arg == "--help") {
            std::fputs(kUsage, stdout);
            for (const Dimension &d : kDimensions)
                std::printf("  %-16s  %s\n", cat(d.option, " N").c_str(), d.help);
            return 0;
        }
    while (!args.empty()) read_option(options, args);
    if (options.folder.empty()) fail(KIMI_INVALID_ARGUMENT, "no folder is given; see --help");
    const auto begin = std::chrono::steady_clock::now();
    write_all(options);
    print_summary(options,
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    try {
        return run(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
    } catch (const std::filesystem::filesystem_error &error) {
        std::fprintf(stderr, "kimi-synth: %s\n", error.what());
    } catch (...) {
        std::fprintf(stderr, "kimi-synth: %s\n", current_error().text.c_str());
    }
    return 1;
}
