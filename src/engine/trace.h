// The recorded steps as a Chrome trace, which Perfetto, chrome://tracing and kimi-heatmap read.
//
// Every rank is a process with two threads. On "compute" a step is an event named "prefill", or
// "decode" where decode rows took part, with rows, bytes and experts as arguments; below it lie the
// sums of its parts, "attention", "experts" and "other", one behind the other. What is left of the
// step, "collectives", lies on the thread "link". Readings of a GPU are counters of its rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/step_recorder.h"

namespace kimi {

// One list of steps per rank. link_gb_per_s is what a rank's link carries in one direction; 0: not
// known, then no share of it is given.
std::string trace_json(std::span<const std::vector<StepRecord>> ranks, double link_gb_per_s);

}  // namespace kimi
