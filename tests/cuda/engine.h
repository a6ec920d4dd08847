// Engines of nano-k2 on the CUDA backend over the runtime of tests/cudart.
#pragma once

#include <memory>
#include <string>

#include "check.h"
#include "engine/engine.h"
#include "tests/cudart/control.h"

namespace kimi::test {

inline constexpr const char *kEager = R"("graphs": {"eager": true})";

// Experts of nano-k2 are 256 wide and the kernels take slices of 64.
inline std::string cuda_ranks(int n) {
    return n == 8 ? R"("ranks": 8, "placement": {"experts": "groups", "expert_groups": 2})"
                  : cat(R"("ranks": )", n);
}

inline std::string context_ranks(int n) {
    return cat(R"("ranks": )", n, R"(, "placement": {"attention": "context")",
               n == 8 ? R"(, "experts": "groups", "expert_groups": 2})" : "}");
}

inline std::string cuda_deployment(const TempDir &dir, const std::string &fields) {
    return dir.write("d.json", cat(R"({"backend": "cuda", "cuda_library": ")", KIMI_CUDA_SIMT,
                                   R"(", "checkpoint": ")", nano(), R"(", "drafter": ")", nano(),
                                   R"(/drafter", "context_limit": 2048, )", fields, "}"));
}

inline std::shared_ptr<Engine> cuda_engine(const std::string &fields) {
    const TempDir dir;
    return std::make_shared<Engine>(cuda_deployment(dir, fields), Progress());
}

// For Log: adds to a std::string.
inline void keep_lines(void *all, std::int32_t, const char *line) {
    static_cast<std::string *>(all)->append(line).append("\n");
}

}  // namespace kimi::test
