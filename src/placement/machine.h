// What the cost model knows about a machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kimi {

// The time of a sum over all ranks. Where measurements are given (on all devices; fewer ranks are
// taken to need as long) they are interpolated by size: below the first as the first, behind the
// last at the bus bandwidth. Otherwise the better of one shot (every rank reads all others) and two
// (reduce-scatter, then gather) at the link's speed.
struct AllReduceRate {
    double one_shot_us = 0, two_shot_us = 0;
    std::vector<std::pair<double, double>> measured;  // bytes, us; ascending
    double bus_gb_per_s = 0;
};

// Context attention's exchange of queries and partial results in one layer: us for at_tokens
// tokens, and wire_factor times the wire time of what more tokens bring.
struct ContextExchangeRate {
    double us = 0, at_tokens = 0, wire_factor = 1;
};

struct Rates {
    double memory_gb_per_s = 0;
    double matmul_tflops = 0, attention_tflops = 0;
    AllReduceRate all_reduce;
    ContextExchangeRate context_exchange;
};

struct Machine {
    std::string name;
    std::uint32_t devices = 1, multiprocessors = 1;
    std::uint64_t memory_bytes = 0;    // of one device
    std::uint64_t reserved_bytes = 0;  // of it, not for weights, KV or activations
    double link_gb_per_s = 0;          // of one device, one direction
    Rates ideal;                       // a lower bound: data sheet, no gaps between kernels
    Rates practical;                   // what published kernels reach
};

// From a machine file. Throws KIMI_INVALID_ARGUMENT with path, field, value and what is allowed.
Machine read_machine(const std::string &path);
Machine parse_machine(std::string_view json, const std::string &path);

double all_reduce_us(const Machine &machine, const Rates &rates, std::uint32_t ranks, double bytes);

}  // namespace kimi
