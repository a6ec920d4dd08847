#include "base/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace kimi {
namespace {

constexpr std::size_t kAlignment = 4096;

void *map(std::size_t bytes) {
    void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? nullptr : data;
}

}  // namespace

HostHeap::HostHeap(Allocate allocate, Release release, void *user)
    : state_(new State{allocate, release, user}) {}

HostMemory::HostMemory(const HostHeap &heap, std::size_t bytes, const char *what) {
    if (bytes == 0) return;
    const auto &[allocate, release, user, in_use] = *heap.state_;
    void *data = allocate == nullptr ? map(bytes) : allocate(user, bytes, kAlignment);
    if (data == nullptr)
        fail(KIMI_OUT_OF_MEMORY, "cannot reserve ", bytes, " bytes of memory for ", what);
    if (allocate != nullptr) std::memset(data, 0, bytes);
    heap_ = heap.state_;
    heap_->bytes += bytes;
    data_ = static_cast<std::byte *>(data);
    bytes_ = bytes;
}

HostMemory::~HostMemory() {
    if (data_ == nullptr) return;
    heap_->bytes -= bytes_;
    if (heap_->release == nullptr)
        munmap(data_, bytes_);
    else
        heap_->release(heap_->user, data_, bytes_);
}

std::uint64_t physical_memory() {
    return static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
           static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
}

}  // namespace kimi
