#include "tests/simt/fiber.h"

#include <sys/mman.h>

#include <new>

namespace kimi::simt::host {

static constexpr std::size_t kPage = 4096;

Stacks::Stacks(std::size_t count, std::size_t bytes_each)
    : count_(count), bytes_each_((bytes_each + kPage - 1) / kPage * kPage + kPage) {
    void *p = mmap(nullptr, count_ * bytes_each_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte *>(p);
    // Best effort: the kernel limits the number of mappings.
    for (std::size_t i = 0; i < count_; ++i) mprotect(base_ + i * bytes_each_, kPage, PROT_NONE);
}

Stacks::~Stacks() {
    munmap(base_, count_ * bytes_each_);
}

Context Stacks::start(std::size_t i, void (*entry)(boost::context::detail::transfer_t)) const {
    // Equal offsets in many stacks would share a few cache sets: shift them against each other.
    const std::size_t shift = i % 7 * 576;
    std::byte *bottom = base_ + i * bytes_each_ + kPage,
              *top = base_ + (i + 1) * bytes_each_ - shift;
    const auto bytes = static_cast<std::size_t>(top - bottom);
    Context context;
    context.at = boost::context::detail::make_fcontext(top, bytes, entry);
#ifdef KIMI_SIMT_ASAN
    ASAN_UNPOISON_MEMORY_REGION(bottom, bytes);  // what an abandoned fiber left
    context.stack = bottom;
    context.stack_bytes = bytes;
#endif
    return context;
}

}  // namespace kimi::simt::host
