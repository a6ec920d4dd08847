#include <algorithm>
#include <string_view>

#include "backend/cpu/kernels.h"
#include "backend/cuda_backend.h"
#include "base/error.h"
#include "kimi/kimi.h"

const char *kimi_version(uint32_t *number) noexcept {
    if (number != nullptr) *number = KIMI_VERSION_NUMBER;
    return KIMI_STRINGIFY(KIMI_VERSION_MAJOR) "." KIMI_STRINGIFY(
        KIMI_VERSION_MINOR) "." KIMI_STRINGIFY(KIMI_VERSION_PATCH);
}

const char *kimi_status_name(kimi_status status) noexcept {
    switch (status) {
#define KIMI_NAME(status) \
    case status:          \
        return #status
        KIMI_NAME(KIMI_OK);
        KIMI_NAME(KIMI_INVALID_ARGUMENT);
        KIMI_NAME(KIMI_NOT_FOUND);
        KIMI_NAME(KIMI_IO);
        KIMI_NAME(KIMI_CORRUPT);
        KIMI_NAME(KIMI_UNSUPPORTED);
        KIMI_NAME(KIMI_OUT_OF_MEMORY);
        KIMI_NAME(KIMI_DEVICE_OUT_OF_MEMORY);
        KIMI_NAME(KIMI_TOO_LONG);
        KIMI_NAME(KIMI_BUSY);
        KIMI_NAME(KIMI_CANCELLED);
        KIMI_NAME(KIMI_DEADLINE);
        KIMI_NAME(KIMI_DEVICE_LOST);
        KIMI_NAME(KIMI_VERSION_MISMATCH);
        KIMI_NAME(KIMI_NUMERIC);
        KIMI_NAME(KIMI_INTERNAL);
#undef KIMI_NAME
        default:
            return "unknown status";
    }
}

int32_t kimi_has_feature(const char *name) noexcept {
    constexpr std::string_view kFeatures[] = {"cpu",        "drafter",      "trace",  "constraint",
                                              "logit_bias", "stop_strings", "events", "background",
                                              "logprobs",   "deadline"};
    const std::string_view wanted = name == nullptr ? "" : name;
    if (wanted == "avx2") return kimi::is_supported(kimi::CpuIsa::avx2);
    if (wanted == "avx512") return kimi::is_supported(kimi::CpuIsa::avx512);
    if (wanted == "cuda") return kimi::has_cuda();
    return std::find(std::begin(kFeatures), std::end(kFeatures), wanted) != std::end(kFeatures);
}
