// Defaults of the public structs.
#include <algorithm>
#include <cstring>

#include "capi/defaults.h"

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

void kimi_session_statistics_init_sized(kimi_session_statistics *statistics, size_t size) noexcept {
    init(statistics, size, kimi_session_statistics{});
}

void kimi_step_init_sized(kimi_step *step, size_t size) noexcept {
    init(step, size, kimi_step{});
}
