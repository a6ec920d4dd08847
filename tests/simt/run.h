// Runs a test's launches and reports what they did and did wrong.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/simt/counters.h"
#include "tests/simt/fault.h"
#include "tests/simt/memory.h"
#include "tests/simt/scheduler.h"

namespace kimi::simt::host {

struct LaunchReport {
    std::string name;
    Dim3 grid, block;
    std::size_t shared_bytes = 0;
    Counters counters;
};

struct Report {
    std::vector<LaunchReport> launches;  // in order; a failed one is the last
    std::vector<Fault> faults;           // of one launch, by block

    bool clean() const { return faults.empty(); }
    bool has(FaultKind kind) const;
    // The only launch with this name.
    const Counters &counters(const std::string &name) const;
    // Faults, one a line; "" if there are none.
    std::string faults_text() const;
    // Counters of all launches.
    std::string text() const;
};

// Calls `enqueue` and runs each launch that it makes at once, on this thread and options.workers -
// 1 others. Stops at the first launch with a fault.
Report run(const std::function<void()> &enqueue, const Options &options = {});

// Several devices: `devices[i]` makes the launches of device i. They run in order on each device,
// and the devices together, on one thread; so kernels may wait for each other. Distinct bytes are
// not counted, and writes by two blocks not checked.
Report run_together(const std::vector<std::function<void()>> &devices, const Options &options = {});

}  // namespace kimi::simt::host
