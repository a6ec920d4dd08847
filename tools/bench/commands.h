// The measurements that kimi-bench offers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kimi::bench {

struct Options {
    std::string deployment;
    std::uint32_t prompt = 0;  // tokens; 0: what the measurement finds useful
    std::uint32_t generate = 64;
    std::vector<std::uint32_t> fill;  // contexts
    std::string trace;                // file; empty: none
    std::string machine;              // file
};

// Prefill and decode next to the machine's read bandwidth.
void run_decode(const Options &options);
// Decode steps and attention alone at filled contexts.
void run_context(const Options &options);
// Cost and gain of speculation: passes by width, acceptance by depth and context, speed against
// plain decoding.
void run_speculation(const Options &options);
// A decode step by part, beside the planner's prediction for a machine.
void run_parts(const Options &options);
// Page placement under churn, with and without defragmentation.
void run_kv(const Options &options);

}  // namespace kimi::bench
