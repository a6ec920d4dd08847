#include "model/config.h"

#include <algorithm>

#include "model/tiny.h"
#include "model/yarn.h"

using namespace kimi;
using Config = nlohmann::ordered_json;

namespace {

Config k26() {
    return Config::parse(synth::target_config(synth::k26_shape()));
}

ModelConfig parse(const Config &config) {
    return parse_model_config(config.dump(), "config.json");
}

Error error_of(const Config &config) {
    return test::error_of([&] { parse(config); });
}

}  // namespace

TEST_CASE("config: nano-k2's fields") {
    const ModelConfig c = read_model_config(test::nano() + "/config.json");
    CHECK(c.n_layers == 5);
    CHECK(c.hidden == 256);
    CHECK(c.n_heads == 8);
    CHECK(c.vocab == 4096);
    CHECK(c.q_rank == 128);
    CHECK(c.kv_rank == 512);
    CHECK(c.nope_dim == 32);
    CHECK(c.rope_dim == 64);
    CHECK(c.v_dim == 32);
    CHECK(c.dense_width == 1024);
    CHECK(c.n_dense_layers == 1);
    CHECK(c.n_experts == 32);
    CHECK(c.top_k == 4);
    CHECK(c.expert_width == 256);
    CHECK(c.n_shared_experts == 1);
    CHECK(c.normalize_top_k);
    CHECK(c.routed_scale == 2.827f);
    CHECK(c.rms_eps == 1e-5f);
    CHECK(c.max_position == 262144);
    CHECK(c.yarn.theta == 50000);
    CHECK(c.yarn.factor == 64);
    CHECK(c.yarn.original_max_position == 4096);
    CHECK(c.yarn.beta_fast == 32);
    CHECK(c.yarn.beta_slow == 1);
    CHECK(c.yarn.mscale == 1);
    CHECK(c.yarn.mscale_all_dim == 1);
}

TEST_CASE("config: K2-Instruct's flat config has its own rope and epsilon") {
    CHECK(parse(k26()).softmax_scale() == doctest::Approx(0.14467962580268923).epsilon(1e-7));
    Config c = k26()["text_config"];
    c.erase("quantization_config");
    c["rms_norm_eps"] = 1e-6;
    c["max_position_embeddings"] = 131072;
    c["rope_scaling"]["factor"] = 32.0;
    c["rope_scaling"]["beta_fast"] = 1.0;
    const ModelConfig k2 = parse(c);
    CHECK(k2.rms_eps == 1e-6f);
    CHECK(k2.max_position == 131072);
    CHECK(k2.softmax_scale() == doctest::Approx(0.13086080).epsilon(1e-6));
    // A step between pairs 19 and 20.
    const std::vector<float> freq = yarn_inv_freq(k2.rope_dim, k2.yarn);
    CHECK(freq[19] == doctest::Approx(std::pow(50000.0, -38 / 64.0)));
    CHECK(freq[20] == doctest::Approx(std::pow(50000.0, -40 / 64.0) / 32));
}

TEST_CASE("config: optional fields may be missing or null") {
    for (const char *field : {"n_group", "topk_group", "moe_layer_freq", "attention_bias",
                              "tie_word_embeddings", "quantization_config", "rope_scaling",
                              "num_key_value_heads", "num_nextn_predict_layers"}) {
        CAPTURE(field);
        Config c = k26();
        c["text_config"][field] = nullptr;
        CHECK_NOTHROW(parse(c));
        c["text_config"].erase(field);
        CHECK_NOTHROW(parse(c));
    }
    for (const char *field : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) {
        CAPTURE(field);
        Config c = k26();
        c["text_config"]["rope_scaling"].erase(field);
        CHECK_NOTHROW(parse(c));
    }
}

TEST_CASE("config: a missing field is named") {
    for (const char *field : {"model_type",
                              "num_hidden_layers",
                              "hidden_size",
                              "num_attention_heads",
                              "vocab_size",
                              "q_lora_rank",
                              "kv_lora_rank",
                              "qk_nope_head_dim",
                              "qk_rope_head_dim",
                              "v_head_dim",
                              "intermediate_size",
                              "first_k_dense_replace",
                              "n_routed_experts",
                              "num_experts_per_tok",
                              "moe_intermediate_size",
                              "n_shared_experts",
                              "scoring_func",
                              "topk_method",
                              "norm_topk_prob",
                              "routed_scaling_factor",
                              "hidden_act",
                              "rms_norm_eps",
                              "rope_theta",
                              "max_position_embeddings"}) {
        CAPTURE(field);
        Config c = k26();
        c["text_config"].erase(field);
        CHECK(error_of(c).status == KIMI_CORRUPT);
        CHECK(error_of(c).text == cat("config.json: text_config.", field, ": is missing"));
        c["text_config"][field] = Config::array();
        CHECK(error_of(c).status == KIMI_CORRUPT);
        CHECK(test::contains(error_of(c).text, cat("text_config.", field, ": is [], must be ")));
    }
    for (const char *field : {"type", "factor", "original_max_position_embeddings"}) {
        CAPTURE(field);
        Config c = k26();
        c["text_config"]["rope_scaling"].erase(field);
        CHECK(error_of(c).text ==
              cat("config.json: text_config.rope_scaling.", field, ": is missing"));
    }
}

TEST_CASE("config: values out of range and values that are not implemented are named") {
    struct Case {
        const char *path, *value;
        kimi_status status;
        const char *text;
    };
    const Case cases[] = {
        {"/num_hidden_layers", "0", KIMI_CORRUPT, "is 0, must be an integer from 1 to 4096"},
        {"/num_hidden_layers", "-1", KIMI_CORRUPT, "is -1"},
        {"/num_hidden_layers", "61.0", KIMI_CORRUPT, "is 61.0, must be an integer"},
        {"/num_hidden_layers", "\"61\"", KIMI_CORRUPT, "is \"61\", must be an integer"},
        {"/hidden_size", "1e20", KIMI_CORRUPT, "is 1e+20, must be an integer from 1 to 1048576"},
        {"/hidden_size", "7000", KIMI_UNSUPPORTED, "is 7000, must be a multiple of 32"},
        {"/v_head_dim", "100", KIMI_UNSUPPORTED, "is 100, must be a multiple of 16"},
        {"/first_k_dense_replace", "62", KIMI_CORRUPT, "is 62, must be an integer from 0 to 61"},
        {"/num_experts_per_tok", "385", KIMI_CORRUPT, "must be an integer from 1 to 64"},
        {"/norm_topk_prob", "1", KIMI_CORRUPT, "is 1, must be true or false"},
        {"/rms_norm_eps", "-1e-5", KIMI_CORRUPT, "must be a number from 0 to 1"},
        {"/rope_theta", "1", KIMI_CORRUPT, "is 1, must be a number from 2"},
        {"/rope_scaling/factor", "0.5", KIMI_CORRUPT, "is 0.5, must be a number from 1"},
        {"/rope_scaling", "[]", KIMI_CORRUPT, ": must be an object, is an array"},
        {"/rope_scaling/type", "\"linear\"", KIMI_UNSUPPORTED, "only \"yarn\" is supported"},
        {"/model_type", "\"llama\"", KIMI_UNSUPPORTED, "is \"llama\", only \"kimi_k2\""},
        {"/scoring_func", "\"softmax\"", KIMI_UNSUPPORTED, "only \"sigmoid\" is supported"},
        {"/topk_method", "\"greedy\"", KIMI_UNSUPPORTED, "only \"noaux_tc\" is supported"},
        {"/hidden_act", "\"gelu\"", KIMI_UNSUPPORTED, "only \"silu\" is supported"},
        {"/n_group", "8", KIMI_UNSUPPORTED, "is 8, only 1 is supported"},
        {"/topk_group", "4", KIMI_UNSUPPORTED, "is 4, only 1 is supported"},
        {"/moe_layer_freq", "2", KIMI_UNSUPPORTED, "is 2, only 1 is supported"},
        {"/attention_bias", "true", KIMI_UNSUPPORTED, "is true, only false is supported"},
        {"/tie_word_embeddings", "true", KIMI_UNSUPPORTED, "is true, only false is supported"},
        {"/quantization_config/quant_method", "\"fp8\"", KIMI_UNSUPPORTED,
         "is \"fp8\", only \"compressed-tensors\" is supported"},
        {"/quantization_config/format", "\"nvfp4-pack-quantized\"", KIMI_UNSUPPORTED,
         "only \"pack-quantized\" is supported"},
        {"/quantization_config/config_groups/group_0/weights/num_bits", "8", KIMI_UNSUPPORTED,
         "is 8, only 4 is supported"},
        {"/quantization_config/config_groups/group_0/weights/group_size", "128", KIMI_UNSUPPORTED,
         "is 128, only 32 is supported"},
        {"/quantization_config/config_groups/group_0/weights/symmetric", "false", KIMI_UNSUPPORTED,
         "is false, only true is supported"},
    };
    for (const Case &c : cases) {
        CAPTURE(c.path);
        CAPTURE(c.value);
        Config config = k26();
        config["text_config"][Config::json_pointer(c.path)] = Config::parse(c.value);
        std::string field(c.path);
        std::replace(field.begin(), field.end(), '/', '.');
        const Error error = error_of(config);
        CAPTURE(error.text);
        CHECK(error.status == c.status);
        CHECK(test::contains(error.text, "config.json: text_config" + field));
        CHECK(test::contains(error.text, c.text));
    }
}

TEST_CASE("config: a file that is not a JSON object is named") {
    for (const char *text : {"", "{", "[]", "null", "\xff", "{\"text_config\": 7}"}) {
        CAPTURE(text);
        const Error error = test::error_of([&] { parse_model_config(text, "config.json"); });
        CHECK(error.status == KIMI_CORRUPT);
        CHECK(test::contains(error.text, "config.json: "));
    }
}

TEST_CASE("config: what kimi-synth writes is read back") {
    ModelConfig shape = synth::k26_shape();
    shape.rms_eps = 1e-6f;
    shape.yarn.beta_fast = 1;
    shape.normalize_top_k = false;
    const ModelConfig c = parse_model_config(synth::target_config(shape), "config.json");
    CHECK(c.rms_eps == 1e-6f);
    CHECK(c.routed_scale == 2.827f);
    CHECK(c.yarn.beta_fast == 1);
    CHECK(!c.normalize_top_k);
}
