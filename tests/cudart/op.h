// An operation of a stream, and what is ordered before it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cudart/running.h"
#include "tests/simt/launch.h"

namespace kimi::cudart {

struct Collective;

// What an operation does. Graphs keep tasks and repeat them.
struct Task {
    enum class Kind : std::uint8_t { kMarker, kKernel, kCopy, kFill, kHost, kGemm, kCollective };

    Kind kind = Kind::kMarker;
    std::string name;
    simt::host::Launch launch = {};                // of a kernel
    std::function<void(Running &)> run = nullptr;  // of copies and the like; throws Error
    std::shared_ptr<const Collective> collective = nullptr;
};
using TaskPtr = std::shared_ptr<const Task>;

struct Op {
    int device = 0;
    TaskPtr task;
    std::size_t lane = 0;  // a stream, or one of those that a graph was captured from
    std::uint64_t place = 0;
    Clock knows;  // what is ordered before it, and itself

    std::size_t n_before = 0;                 // that have to end first
    std::vector<std::shared_ptr<Op>> before;  // the same, until it is done
    std::vector<std::shared_ptr<Op>> next;    // that wait for this one
    bool wanted = false, awaited = false, done = false;
    double end_us = 0;  // by the machine's times
};
using OpPtr = std::shared_ptr<Op>;

}  // namespace kimi::cudart
