#include "model/target_weights.h"

#include <cstring>

#include "base/bf16.h"
#include "model/tiny.h"

using namespace kimi;
using test::TinyCheckpoint;

namespace {

const std::string kLayer = "language_model.model.layers.1.";
const std::string kExpert = kLayer + "mlp.experts.3.down_proj.";

std::vector<float> logits(const TinyCheckpoint &checkpoint) {
    return test::load(checkpoint).logits();
}

// The values of an int4 tensor, nibble by nibble.
std::vector<float> unpack(const std::string &packed, const std::string &scales) {
    std::vector<float> out;
    for (std::size_t i = 0; i < 2 * packed.size(); ++i) {
        const int byte = static_cast<unsigned char>(packed[i / 2]);
        bf16 scale;
        std::memcpy(&scale, scales.data() + i / 32 * sizeof scale, sizeof scale);
        out.push_back(static_cast<float>((i % 2 == 0 ? byte & 15 : byte >> 4) - 8) *
                      to_float(scale));
    }
    return out;
}

std::string as_bf16(std::span<const float> values) {
    std::string out;
    for (const float value : values) {
        const bf16 narrow = to_bf16(value);
        REQUIRE(to_float(narrow) == value);
        out.append(reinterpret_cast<const char *>(&narrow), sizeof narrow);
    }
    return out;
}

}  // namespace

TEST_CASE("weights: a random checkpoint gives finite logits that depend on the weights") {
    const std::vector<float> base = logits(TinyCheckpoint());
    CHECK(base.size() == 512);
    float largest = 0;
    for (const float x : base) largest = std::max(largest, std::fabs(x));
    CHECK(largest > 0.5f);
    CHECK(largest < 20.0f);

    // A bias chooses the experts.
    const auto with_bias = [](std::array<float, 4> bias) {
        TinyCheckpoint other;
        other.data[kLayer + "mlp.gate.e_score_correction_bias"].assign(
            reinterpret_cast<const char *>(bias.data()), sizeof bias);
        return logits(other);
    };
    CHECK(with_bias({9, 9, 0, 0}) != with_bias({0, 0, 9, 9}));
}

TEST_CASE("weights: the names of K2 and K2-Thinking mean the same") {
    TinyCheckpoint k2;
    k2.drop_prefix("language_model.");
    CHECK(logits(k2) == logits(TinyCheckpoint()));
}

TEST_CASE("weights: the vision tower and the projector are skipped, wherever they lie") {
    TinyCheckpoint with_vision;
    with_vision.shards[0].tensors.push_back(
        {"vision_tower.patch_embed.proj.weight", DType::bf16, {8, 3, 14, 14}});
    with_vision.shards.push_back(
        {"vision.safetensors", {{"mm_projector.proj.0.bias", DType::bf16, {8}}}});
    CHECK(logits(with_vision) == logits(TinyCheckpoint()));
}

TEST_CASE("weights: an expert is int4 where weight_packed exists and bf16 otherwise") {
    TinyCheckpoint int4, bf16;
    for (const char *projection : {"gate_proj", "up_proj", "down_proj"}) {
        const std::string name = cat(kLayer, "mlp.experts.3.", projection);
        // Powers of two, so that the products are bf16 values too.
        const std::size_t n_scales = int4.tensor(name + ".weight_scale").bytes() / 2;
        std::string &scales = int4.data[name + ".weight_scale"];
        for (std::size_t i = 0; i < n_scales; ++i)
            scales += as_bf16({{i % 3 == 0 ? 0.125f : 0.25f}});
        const synth::TensorSpec packed = int4.tensor(name + ".weight_packed");
        bf16.data[name + ".weight"] = as_bf16(unpack(int4.bytes(packed), scales));
        bf16.tensor(name + ".weight_packed") = {
            name + ".weight", DType::bf16, {packed.shape[0], packed.shape[1] * 8}};
        bf16.remove(name + ".weight_scale");
        bf16.remove(name + ".weight_shape");
    }
    CHECK(logits(int4) != logits(TinyCheckpoint()));  // the expert is in use
    test::check_close(logits(bf16), logits(int4), 1e-5);
}

TEST_CASE("weights: the geometry comes from the packed tensor, whatever weight_shape holds") {
    TinyCheckpoint lying;
    lying.data[kExpert + "weight_shape"] = std::string(8, '\x7f');
    CHECK(logits(lying) == logits(TinyCheckpoint()));
}

TEST_CASE("weights: any missing tensor is named") {
    for (const synth::Shard &shard : TinyCheckpoint().shards)
        for (const synth::TensorSpec &tensor : shard.tensors) {
            TinyCheckpoint cut;
            cut.remove(tensor.name);
            const Error error = test::load_error(cut);
            CAPTURE(error.text);
            CHECK(error.status == KIMI_CORRUPT);
            // Without weight_packed, the plain weight is looked for.
            const std::string name = tensor.name.substr(0, tensor.name.rfind("_packed"));
            CHECK(test::contains(error.text, "tensor " + name + " is missing"));
        }
}

TEST_CASE("weights: a tensor that the architecture does not have is refused by name") {
    for (const std::string name :
         {"language_model.model.layers.2.input_layernorm.weight",
          "language_model.model.layers.1.mlp.gate.bias",
          "language_model.model.layers.1.mlp.experts.4.gate_proj.weight_scale",
          "language_model.model.layers.1.mlp.experts.3.down_proj.weight",
          "language_model.model.layers.1.mlp.experts.3.down_proj.weight_zero_point",
          "model.embed_tokens.weight"}) {
        TinyCheckpoint more;
        more.shards[2].tensors.push_back({name, DType::bf16, {64}});
        const Error error = test::load_error(more);
        CHECK(error.status == KIMI_UNSUPPORTED);
        CHECK(error.text == "model-00003-of-000003.safetensors: tensor " + name +
                                " is not part of the architecture that this library implements");
    }
}

TEST_CASE("weights: wrong shapes and types are named with what was found and what is allowed") {
    struct Case {
        const char *name;
        DType dtype;
        std::vector<std::uint64_t> shape;
        kimi_status status;
        const char *text;
    };
    const Case cases[] = {
        {"mlp.gate.e_score_correction_bias",
         DType::bf16,
         {4},
         KIMI_CORRUPT,
         "is BF16, must be F32"},
        {"mlp.gate.weight", DType::f32, {4, 64}, KIMI_CORRUPT, "is F32, must be BF16"},
        {"mlp.gate.weight",
         DType::bf16,
         {64, 4},
         KIMI_CORRUPT,
         "has shape [64, 4], must be [4, 64]"},
        {"self_attn.q_a_proj.weight",
         DType::f8_e4m3,
         {32, 64},
         KIMI_UNSUPPORTED,
         "is F8_E4M3, must be BF16"},
        {"self_attn.q_a_proj.weight",
         DType::bf16,
         {32 * 64},
         KIMI_CORRUPT,
         "has shape [2048], must be [32, 64]"},
        {"self_attn.q_a_layernorm.weight",
         DType::bf16,
         {1, 32},
         KIMI_CORRUPT,
         "has shape [1, 32], must be [32]"},
        {"self_attn.q_a_layernorm.weight",
         DType::bf16,
         {},
         KIMI_CORRUPT,
         "has shape [], must be [32]"},
        {"mlp.experts.3.down_proj.weight_packed",
         DType::i32,
         {64, 8},
         KIMI_CORRUPT,
         "has shape [64, 8], must be [64, 4]"},
        {"mlp.experts.3.down_proj.weight_packed",
         DType::u8,
         {64, 16},
         KIMI_CORRUPT,
         "is U8, must be I32"},
        {"mlp.experts.3.down_proj.weight_scale",
         DType::bf16,
         {64, 2},
         KIMI_CORRUPT,
         "has shape [64, 2], must be [64, 1]"},
        {"mlp.experts.3.down_proj.weight_scale",
         DType::f16,
         {64, 1},
         KIMI_CORRUPT,
         "is F16, must be BF16"},
        {"mlp.experts.3.down_proj.weight_shape",
         DType::i64,
         {2},
         KIMI_CORRUPT,
         "is I64, must be I32"},
        {"mlp.experts.3.down_proj.weight_shape",
         DType::i32,
         {3},
         KIMI_CORRUPT,
         "has shape [3], must be [2]"},
    };
    for (const Case &c : cases) {
        TinyCheckpoint wrong;
        synth::TensorSpec &tensor = wrong.tensor(kLayer + c.name);
        tensor.dtype = c.dtype;
        tensor.shape = c.shape;
        wrong.data[tensor.name] = std::string(tensor.bytes(), '\0');
        const Error error = test::load_error(wrong);
        CHECK(error.status == c.status);
        CHECK(error.text ==
              cat("model-00002-of-000003.safetensors: tensor ", tensor.name, ' ', c.text));
    }
}

TEST_CASE("weights: a config of another depth or width does not fit") {
    const auto error_with = [](const char *field, std::uint32_t value) {
        TinyCheckpoint other;
        other.config["text_config"][field] = value;
        return test::load_error(other).text;
    };
    CHECK(test::contains(error_with("num_hidden_layers", 3),
                         "tensor language_model.model.layers.2.input_layernorm.weight is missing"));
    CHECK(test::contains(error_with("num_hidden_layers", 1), "layers.1."));
    CHECK(
        test::contains(error_with("hidden_size", 128), "has shape [512, 64], must be [512, 128]"));
    CHECK(test::contains(error_with("n_routed_experts", 3), "has shape [4, 64], must be [3, 64]"));
    CHECK(test::contains(error_with("first_k_dense_replace", 0), "layers.0.mlp.gate.weight"));
}
