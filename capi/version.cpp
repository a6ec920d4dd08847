#include <algorithm>
#include <string_view>

#include "backend/cpu/kernels.h"
#include "base/error.h"
#include "kimi/kimi.h"

const char *kimi_version(uint32_t *number) noexcept {
    if (number != nullptr) *number = KIMI_VERSION_NUMBER;
    return KIMI_STRINGIFY(KIMI_VERSION_MAJOR) "." KIMI_STRINGIFY(
        KIMI_VERSION_MINOR) "." KIMI_STRINGIFY(KIMI_VERSION_PATCH);
}

int32_t kimi_has_feature(const char *name) noexcept {
    constexpr std::string_view kFeatures[] = {"cpu",        "drafter",      "trace", "constraint",
                                              "logit_bias", "stop_strings", "events"};
    const std::string_view wanted = name == nullptr ? "" : name;
    if (wanted == "avx2") return kimi::is_supported(kimi::CpuIsa::avx2);
    if (wanted == "avx512") return kimi::is_supported(kimi::CpuIsa::avx512);
    return std::find(std::begin(kFeatures), std::end(kFeatures), wanted) != std::end(kFeatures);
}
