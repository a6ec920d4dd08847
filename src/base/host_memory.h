// Large zeroed arrays of host memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace kimi {

// Where they come from, and how much is in use. Copies are the same heap.
class HostHeap {
  public:
    // NULL where there is no memory.
    using Allocate = void *(*)(void *user, std::size_t bytes, std::size_t alignment);
    using Release = void (*)(void *user, void *memory, std::size_t bytes);

    // The system's, which commits memory page by page when it is first touched.
    HostHeap() : HostHeap(nullptr, nullptr, nullptr) {}
    HostHeap(Allocate allocate, Release release, void *user);

    std::uint64_t bytes() const { return state_->bytes.load(std::memory_order_relaxed); }

  private:
    friend class HostMemory;
    struct State {
        Allocate allocate;
        Release release;
        void *user;
        std::atomic<std::uint64_t> bytes{0};
    };
    std::shared_ptr<State> state_;
};

class HostMemory {
  public:
    HostMemory() = default;
    // Throws KIMI_OUT_OF_MEMORY with `what` and the size.
    HostMemory(const HostHeap &heap, std::size_t bytes, const char *what);
    HostMemory(HostMemory &&other) noexcept { *this = std::move(other); }
    HostMemory &operator=(HostMemory &&other) noexcept {
        std::swap(heap_, other.heap_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~HostMemory();

    std::byte *data() const { return data_; }
    float *floats() const { return reinterpret_cast<float *>(data_); }
    std::size_t bytes() const { return bytes_; }

  private:
    std::shared_ptr<HostHeap::State> heap_;
    std::byte *data_ = nullptr;
    std::size_t bytes_ = 0;
};

// Of the machine; 0 where it does not say.
std::uint64_t physical_memory();

}  // namespace kimi
