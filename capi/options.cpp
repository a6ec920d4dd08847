#include "capi/options.h"

#include <algorithm>
#include <cstring>

#include "capi/boundary.h"
#include "text/utf8.h"

namespace kimi::capi {

kimi_engine_options default_engine_options() {
    kimi_engine_options options = {};
    options.struct_size = sizeof options;
    return options;
}

kimi_session_options default_session_options() {
    kimi_session_options options = {};
    options.struct_size = sizeof options;
    options.temperature = 1.0f;
    options.top_p = 0.95f;
    options.draft_budget = KIMI_AUTO;
    options.draft_mode = KIMI_DRAFT_TREE;
    return options;
}

HostHeap read_heap(const kimi_engine_options &o) {
    if ((o.allocate == nullptr) != (o.release == nullptr))
        fail(KIMI_INVALID_ARGUMENT, "options.", o.allocate == nullptr ? "allocate" : "release",
             " is NULL, and the other one of the two is not");
    return HostHeap(o.allocate, o.release, o.allocator_user);
}

SessionOptions read_session_options(const kimi_session_options *in) {
    kimi_session_options o = default_session_options();
    if (in != nullptr) o = read_struct(in, o, "options");
    const auto in_range = [](const char *name, float value, float max) {
        if (!(value >= 0 && value <= max))
            fail(KIMI_INVALID_ARGUMENT, "options.", name, " is ", value, ", must be from 0 to ",
                 max);
    };
    in_range("temperature", o.temperature, kMaxTemperature);
    in_range("top_p", o.top_p, 1);
    in_range("min_p", o.min_p, 1);
    if (o.draft_budget > kMaxTreeNodes && o.draft_budget != KIMI_AUTO)
        fail(KIMI_INVALID_ARGUMENT, "options.draft_budget is ", o.draft_budget,
             ", must be from 0 to ", kMaxTreeNodes, " or KIMI_AUTO");
    if (o.draft_mode > KIMI_DRAFT_CHAIN)
        fail(KIMI_INVALID_ARGUMENT, "options.draft_mode is ", o.draft_mode,
             ", must be KIMI_DRAFT_TREE or KIMI_DRAFT_CHAIN");
    if (o.logprobs > KIMI_MAX_LOGPROBS)
        fail(KIMI_INVALID_ARGUMENT, "options.logprobs is ", o.logprobs, ", must be from 0 to ",
             std::uint32_t{KIMI_MAX_LOGPROBS});
    if ((o.flags & ~std::uint32_t{KIMI_IGNORE_STOP}) != 0)
        fail(KIMI_INVALID_ARGUMENT, "options.flags is ", o.flags,
             ", must be 0 or KIMI_IGNORE_STOP");
    SessionOptions out;
    out.sampling = {o.seed, o.temperature, o.top_p, o.min_p, o.top_k};
    out.max_tokens = o.max_tokens;
    out.draft_budget = o.draft_budget;
    out.draft_chain = o.draft_mode == KIMI_DRAFT_CHAIN;
    out.ignore_stop = (o.flags & KIMI_IGNORE_STOP) != 0;
    out.deadline_ms = o.deadline_ms;
    out.logprobs = o.logprobs;
    return out;
}

ConstraintKind constraint_kind(std::uint32_t kind) {
    switch (kind) {
        case KIMI_CONSTRAINT_JSON_SCHEMA:
            return ConstraintKind::json_schema;
        case KIMI_CONSTRAINT_REGEX:
            return ConstraintKind::regex;
        case KIMI_CONSTRAINT_TOOLS:
            return ConstraintKind::tool_calls;
        default:
            fail(KIMI_INVALID_ARGUMENT, "kind is ", kind, ", must be one of KIMI_CONSTRAINT_*");
    }
}

std::vector<LogitBias> read_biases(std::span<const kimi_logit_bias> in, std::uint32_t vocab) {
    std::vector<LogitBias> out;
    for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i].token < 0 || static_cast<std::uint32_t>(in[i].token) >= vocab)
            fail(KIMI_INVALID_ARGUMENT, "biases[", i, "].token is ", in[i].token,
                 ", must be from 0 to ", vocab - 1);
        if (!(in[i].bias >= -100 && in[i].bias <= 100))
            fail(KIMI_INVALID_ARGUMENT, "biases[", i, "].bias is ", in[i].bias,
                 ", must be from -100 to 100");
        out.push_back({in[i].token, in[i].bias});
    }
    return out;
}

std::vector<std::string> read_stop_strings(std::span<const char *const> in) {
    if (in.size() > KIMI_MAX_STOP_STRINGS)
        fail(KIMI_INVALID_ARGUMENT, "n is ", in.size(), ", must be from 0 to ",
             std::size_t{KIMI_MAX_STOP_STRINGS});
    std::vector<std::string> out;
    for (std::size_t i = 0; i < in.size(); ++i) {
        out.emplace_back(&not_null(in[i], cat("strings[", i, "]")));
        const std::size_t bytes = out.back().size();
        if (bytes == 0 || bytes > KIMI_MAX_STOP_BYTES)
            fail(KIMI_INVALID_ARGUMENT, "strings[", i, "] has ", bytes,
                 " bytes, must have from 1 to ", std::size_t{KIMI_MAX_STOP_BYTES});
        if (find_invalid_utf8(out.back()) != std::string::npos)
            fail(KIMI_INVALID_ARGUMENT, "strings[", i, "] is not UTF-8");
    }
    return out;
}

namespace {

// The caller's struct may be smaller or larger than ours.
template <typename T>
void init(T *out, std::size_t size, T value) {
    if (out == nullptr || size < sizeof value.struct_size) return;
    std::memset(static_cast<void *>(out), 0, size);
    value.struct_size = size;
    std::memcpy(static_cast<void *>(out), &value, std::min(size, sizeof value));
}

}  // namespace
}  // namespace kimi::capi

using namespace kimi::capi;

void kimi_error_init_sized(kimi_error *error, size_t size) noexcept {
    init(error, size, kimi_error{});
}

void kimi_engine_options_init_sized(kimi_engine_options *options, size_t size) noexcept {
    init(options, size, default_engine_options());
}

void kimi_session_options_init_sized(kimi_session_options *options, size_t size) noexcept {
    init(options, size, default_session_options());
}

void kimi_engine_statistics_init_sized(kimi_engine_statistics *statistics, size_t size) noexcept {
    init(statistics, size, kimi_engine_statistics{});
}

void kimi_session_statistics_init_sized(kimi_session_statistics *statistics, size_t size) noexcept {
    init(statistics, size, kimi_session_statistics{});
}

void kimi_estimate_init_sized(kimi_estimate *estimate, size_t size) noexcept {
    init(estimate, size, kimi_estimate{});
}

void kimi_step_init_sized(kimi_step *step, size_t size) noexcept {
    init(step, size, kimi_step{});
}

void kimi_event_init_sized(kimi_event *event, size_t size) noexcept {
    init(event, size, kimi_event{});
}
