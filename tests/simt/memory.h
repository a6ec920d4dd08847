// Global memory as the executor sees it: registered allocations and what is known of each byte.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/simt/use.h"

namespace kimi::simt::host {

// Zeroed bytes that cost nothing until they are touched.
struct FreeBytes {
    void operator()(std::uint8_t *p) const;
};
using LazyBytes = std::unique_ptr<std::uint8_t[], FreeBytes>;

// One allocation. What is known of the bytes is kept without locks: two OS threads lose each
// other's updates only where one reads what the other writes, and then only kRead and kStored.
struct Memory {
    enum State : std::uint8_t {
        kWritten = 1,  // somebody wrote the byte
        kRead = 2,     // the current launch read it
        kStored = 4,   // the current launch wrote it
    };

    std::byte *base = nullptr;
    std::size_t bytes = 0;
    std::string name;
    bool live = true;
    bool may_overlap = false;  // two blocks may store to the same byte
    bool of_host = false;      // the host writes it, unseen: all of it counts as written
    LazyBytes state;           // of every byte
    LazyBytes
        stored_by;   // number of the block that wrote it in the current launch, folded to 1..255
    LazyBytes uses;  // Use of every 4 bytes; null: not looked at
    std::atomic<std::uint64_t> visible_to{~std::uint64_t{0}};  // devices, a bit each

    Use *first_use() const { return reinterpret_cast<Use *>(uses.get()); }
    std::size_t offset_of(std::uintptr_t address) const {
        return address - reinterpret_cast<std::uintptr_t>(base);
    }
    void mark_written(std::size_t begin, std::size_t count, bool value) const {
        std::memset(state.get() + begin, value ? kWritten : 0, count);
    }
};

// Registers memory that kernels may touch; `base` is aligned to 256 bytes, as cudaMalloc does, and
// stays the caller's. All bytes count as unwritten. Thread safe. The record lives forever, so that
// use after release is found.
Memory *register_memory(void *base, std::size_t bytes, std::string name);
// From now on, uses by streams have to be ordered.
void track_uses(Memory &memory);
void release_memory(Memory *memory);
// The live allocation that holds p (or ends at p), or null.
const Memory *find_memory(const void *p);

// What one launch touched of a range of a buffer, each byte and 32-byte sector once. Forgets it.
struct Distinct {
    std::uint64_t bytes_read = 0, bytes_written = 0, sectors_read = 0, sectors_written = 0;
};
Distinct take_distinct(const Memory &memory, std::size_t begin, std::size_t end);
// Forgets what the last launch did to any memory.
void forget_launch();

// Device memory of a test. Fresh bytes are 0xff (a NaN in f32, bf16 and e4m3) and unwritten.
class RawBuffer {
  public:
    RawBuffer(std::string name, std::size_t bytes);
    RawBuffer(const RawBuffer &) = delete;
    RawBuffer &operator=(const RawBuffer &) = delete;
    ~RawBuffer();

    std::byte *bytes() const { return memory_->base; }
    std::size_t size_bytes() const { return memory_->bytes; }
    Memory &memory() const { return *memory_; }
    void upload(std::size_t begin, std::span<const std::byte> bytes);
    // Makes a range unreadable again.
    void poison(std::size_t begin, std::size_t count);

  private:
    Memory *memory_;
};

template <typename T>
class Buffer : public RawBuffer {
  public:
    Buffer(std::string name, std::size_t count) : RawBuffer(std::move(name), count * sizeof(T)) {}
    Buffer(std::string name, std::span<const T> values) : Buffer(std::move(name), values.size()) {
        upload(values);
    }
    Buffer(std::string name, const std::vector<T> &values)
        : Buffer(std::move(name), std::span<const T>(values)) {}

    std::size_t size() const { return size_bytes() / sizeof(T); }
    T *data() const { return reinterpret_cast<T *>(bytes()); }
    void upload(std::span<const T> values, std::size_t first = 0) {
        RawBuffer::upload(first * sizeof(T), std::as_bytes(values));
    }
    void fill(T value) { upload(std::vector<T>(size(), value)); }
    std::vector<T> download() const { return {data(), data() + size()}; }
};

}  // namespace kimi::simt::host
