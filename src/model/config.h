// The target's shape and constants, from a checkpoint's config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace kimi {

// Rope scaling by YaRN. factor 1 is plain rope.
struct YarnConfig {
    double theta = 0;
    double factor = 1;
    double beta_fast = 32, beta_slow = 1;
    double mscale = 1, mscale_all_dim = 0;
    std::uint32_t original_max_position = 0;
};

struct ModelConfig {
    std::uint32_t n_layers, hidden, n_heads, vocab;
    std::uint32_t q_rank, kv_rank, nope_dim, rope_dim, v_dim;
    std::uint32_t dense_width, n_dense_layers;  // layers [0, n_dense_layers) are dense
    std::uint32_t n_experts, top_k, expert_width, n_shared_experts;
    bool normalize_top_k;
    float routed_scale;
    float rms_eps;
    std::uint32_t max_position;
    YarnConfig yarn;

    std::uint32_t qk_dim() const { return nope_dim + rope_dim; }
    std::uint32_t latent_dim() const { return kv_rank + rope_dim; }  // of a cached token
    bool is_moe(std::uint32_t layer) const { return layer >= n_dense_layers; }
    float softmax_scale() const;
};

// Reads config.json of K2, K2-Thinking (the fields at the top level) or K2.5/K2.6 (in text_config).
// Throws KIMI_CORRUPT for missing or impossible fields and KIMI_UNSUPPORTED for values that this
// library does not implement, with path, field, value and what is allowed.
ModelConfig read_model_config(const std::string &path);
ModelConfig parse_model_config(std::string_view json, const std::string &path);

// Typed reading of the members of one JSON object, with errors that name file and field.
class FieldReader {
  public:
    FieldReader(const Json &object, std::string where);

    bool has(std::string_view key) const;  // present and not null
    FieldReader object(std::string_view key) const;
    const Json &value(std::string_view key) const;
    std::uint32_t count(std::string_view key, std::uint32_t min, std::uint32_t max) const;
    double number(std::string_view key, double min, double max) const;
    bool boolean(std::string_view key) const;
    std::string_view string(std::string_view key) const;
    // The value must be the one this library implements.
    void expect_text(std::string_view key, std::string_view value) const;
    void expect_flag(std::string_view key, bool value) const;
    void expect_count(std::string_view key, std::uint32_t value) const;

    // "PATH: KEY: " and the parts.
    template <typename... Parts>
    [[noreturn]] void fail(kimi_status status, std::string_view key, const Parts &...parts) const {
        kimi::fail(status, where_, key, ": ", parts...);
    }

  private:
    const Json *object_;
    std::string where_;
};

// The yarn fields of a target's or drafter's config.
YarnConfig read_yarn(const FieldReader &config);

}  // namespace kimi
