// Helpers for tests of kernels.
#pragma once

#include <string>
#include <utility>

#include "check.h"
#include "kernels/simt/simt.h"
#include "tests/simt/run.h"

namespace kimi::simt::host {

// A launch whose threads call `body`.
inline Launch launch_of(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                        std::function<void()> body) {
    return {"body", grid, block, shared_bytes, nullptr, false, false, std::move(body)};
}
inline Report run_body(Dim3 grid, Dim3 block, std::size_t shared_bytes, std::function<void()> body,
                       const Options &options = {}) {
    return run([&] { submit(launch_of(grid, block, shared_bytes, body)); }, options);
}
inline Report run_body(Dim3 grid, Dim3 block, std::function<void()> body,
                       const Options &options = {}) {
    return run_body(grid, block, 0, std::move(body), options);
}

inline void check_clean(const Report &report) {
    INFO(report.faults_text());
    CHECK(report.clean());
}
// The first fault is of this kind, and its text contains `part`.
inline void check_fault(const Report &report, FaultKind kind, const std::string &part = {}) {
    INFO(report.faults_text());
    REQUIRE(!report.clean());
    CHECK(std::string(name_of(report.faults[0].kind)) == name_of(kind));
    CHECK(test::contains(report.faults[0].text(), part));
}

inline unsigned tid() {
    return threadIdx.x;
}

}  // namespace kimi::simt::host
