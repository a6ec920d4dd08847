// The device that is the host: fp32 activations, weights read where they are mapped.
#pragma once

#include <memory>

#include "backend/communicator.h"
#include "backend/device.h"
#include "base/host_memory.h"

namespace kimi {

enum class CpuIsa;

// n_threads counts the calling thread. Activations, KV and workspaces are of the heap.
std::unique_ptr<Device> make_cpu_device(CpuIsa isa, unsigned n_threads);
// One of several ranks, which all meet in `ranks`.
std::unique_ptr<Device> make_cpu_device(CpuIsa isa, unsigned n_threads,
                                        std::shared_ptr<Communicator> ranks, std::uint32_t rank,
                                        const HostHeap &heap = {});

// Bytes that it reserves for partial results of attention over long contexts; the rest of its
// workspace does not grow with the context.
std::size_t cpu_split_bytes(std::uint32_t n_heads, std::uint32_t kv_rank, std::uint32_t context,
                            unsigned n_threads);

}  // namespace kimi
