// What an engine has of the program that it runs in.
#pragma once

#include "base/host_memory.h"
#include "base/log.h"

namespace kimi {

struct Host {
    Log log;
    HostHeap heap;
};

}  // namespace kimi
