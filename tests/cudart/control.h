// What a test decides about the machine behind the CUDA runtime of tests/cudart, and what it can
// see of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kimi::cudart {

struct Machine {
    int n_devices = 1;                                // at most 64
    std::size_t memory_bytes = std::size_t{8} << 30;  // of each device
    int compute_major = 12, compute_minor = 0;
    int n_sms = 188;
    int driver_version = 13000, runtime_version = 13000;
    // Whether a device can have access to the memory of a peer; null: all can.
    std::function<bool(int device, int peer)> can_access = nullptr;
    // What an operation seems to take between events, in microseconds: an NCCL call, any other.
    double collective_us = 20, operation_us = 5;
    std::size_t graph_node_bytes = 0;  // of device memory, for every node of an executable graph
    bool check_order = true;   // uses of the same bytes by two streams are ordered by something
    bool check_races = false;  // in shared memory
    // Real time without progress after which kernels that poll see time pass, and other waits are
    // deadlocks; of the latter after `deadlock_s`, where it is set.
    double patience_s = 10, deadlock_s = 0;
    // Instead of patience_s once a call has failed because a test wants it, until it wants no more;
    // 0: patience_s. So a busy machine does not look like a rank that never comes.
    double patience_after_failure_s = 0;
};

// Starts over with this machine: nothing is allocated, no call counted. No other thread may be in a
// call. Without it, the first call finds Machine().
void start(const Machine &machine);

// The nth call (from 1, counting those from now on) of a function by its name, e.g. "cudaMalloc",
// fails with this status of its library, and those after it if `and_later`. More names: "launch" is
// the start of a kernel by the host; "kernel" its run, which breaks the device; "" any call.
void fail_nth(const std::string &name, std::uint64_t n, int status, bool and_later = false);
// Ends that.
void fail_no_more();
// Kernels of this name do nothing from now on: what they would have made is missing.
void skip_kernels(const std::string &name);
// Calls since the start; "" counts all, other names as above.
std::uint64_t n_calls(const std::string &name);
// The names that were called since the start, without "".
std::vector<std::string> called();

// What exists.
struct Live {
    std::size_t allocations = 0, bytes = 0, host_allocations = 0, streams = 0, events = 0,
                graphs = 0, graph_execs = 0, graph_bytes = 0, communicators = 0;
    bool operator==(const Live &) const = default;
};
Live live();
// One line of what exists that differs from `before`; "" if nothing does.
std::string leaks(const Live &before = {});

// What went wrong last on any device, or in a call that was refused; "" if nothing did.
std::string last_fault();
// Kernels run since the start.
std::uint64_t n_kernels();

}  // namespace kimi::cudart
