#include "base/host_memory.h"

#include <sys/mman.h>

#include "base/error.h"

namespace kimi {

HostMemory::HostMemory(std::size_t bytes, const char *what) : bytes_(bytes) {
    if (bytes == 0) return;
    void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        fail(KIMI_OUT_OF_MEMORY, "cannot reserve ", bytes, " bytes of memory for ", what);
    data_ = static_cast<std::byte *>(data);
}

HostMemory::~HostMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace kimi
