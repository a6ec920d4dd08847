// A trace of kimi_engine_save_trace, as a picture needs it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kimi::heatmap {

// One pass on one rank.
struct Step {
    double begin = 0, end = 0;  // us
    bool decode = false;
    double compute = 1;  // share of the time in which the rank computed
    double link = 0;  // share of what the link carries; of the time that it was waited for, where
                      // the trace does not say
};

struct Trace {
    std::vector<std::vector<Step>> ranks;
    bool link_share = false;  // Step::link is a share of what the link carries
    double end = 0;           // us, of the last step
};

// Throws KIMI_INVALID_ARGUMENT or KIMI_CORRUPT with `name` and what is wrong.
Trace parse_trace(std::string_view json, const std::string &name);

}  // namespace kimi::heatmap
