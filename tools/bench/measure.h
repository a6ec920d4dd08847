// Helpers of the measurements: engines, sessions and their steps.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace kimi::bench {

inline std::shared_ptr<Engine> open_engine(const std::string &deployment) {
    return std::make_shared<Engine>(deployment, Progress());
}

inline SessionOptions greedy(std::uint32_t draft_budget, bool chain = false) {
    SessionOptions options;
    options.sampling.temperature = 0;
    options.ignore_stop = true;
    options.draft_budget = draft_budget;
    options.draft_chain = chain;
    return options;
}

// What kimi_engine_save_trace writes.
void save_trace(Engine &engine, const std::string &path);

// Seeded tokens below `vocab`.
std::vector<std::int32_t> random_tokens(std::uint32_t n, std::uint32_t vocab,
                                        std::uint32_t seed = 1);

// One step and the seconds it took. Throws what the step failed with.
double timed_step(Session &session);
// Steps until the prompt is processed; the seconds of all steps.
double prefill(Session &session);

double median(std::vector<double> values);

// A session of n tokens whose KV is that of the last tokens of a short real prompt, over and over:
// contexts that would take hours to compute, with values of the right size.
std::unique_ptr<Session> filled_session(const std::shared_ptr<Engine> &engine, std::uint32_t n,
                                        const SessionOptions &options);

}  // namespace kimi::bench
