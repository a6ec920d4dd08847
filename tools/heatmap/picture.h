// A trace as an SVG picture: time from left to right, one block of lanes for prefill and one for
// decode below it, in each of them every rank's compute and link. The darker, the busier.
#pragma once

#include <string>

#include "tools/heatmap/trace.h"

namespace kimi::heatmap {

// Every lane is a group <g class="lane"> with data-phase, data-rank and data-lane, and a cell for
// each of kColumns equal pieces of time in which something happened; the cell's fill-opacity is
// the busy share of that time.
inline constexpr int kColumns = 240;
std::string draw(const Trace &trace);

}  // namespace kimi::heatmap
