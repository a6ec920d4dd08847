#include "tests/simt/memory.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

#include "base/error.h"

namespace kimi::simt::host {
namespace {

constexpr std::size_t kAlignment = 256;

struct Registry {
    std::shared_mutex mutex;
    std::deque<Memory> all;                      // stable addresses
    std::map<std::uintptr_t, Memory *> by_base;  // live ones
};
Registry &registry() {
    static auto *const instance = new Registry;  // for whoever releases memory at exit
    return *instance;
}

LazyBytes zeroed(std::size_t bytes) {
    auto *p = static_cast<std::uint8_t *>(std::calloc(bytes + 1, 1));
    if (p == nullptr) throw std::bad_alloc();
    return LazyBytes(p);
}

}  // namespace

void FreeBytes::operator()(std::uint8_t *p) const {
    std::free(p);
}

Memory *register_memory(void *base, std::size_t bytes, std::string name) {
    KIMI_CHECK(reinterpret_cast<std::uintptr_t>(base) % kAlignment == 0);
    Registry &r = registry();
    const std::unique_lock lock(r.mutex);
    Memory &memory = r.all.emplace_back();
    memory.base = static_cast<std::byte *>(base);
    memory.bytes = bytes;
    memory.name = std::move(name);
    memory.state = zeroed(bytes);
    memory.stored_by = zeroed(bytes);
    r.by_base[reinterpret_cast<std::uintptr_t>(base)] = &memory;
    return &memory;
}

void track_uses(Memory &memory) {
    memory.uses = zeroed((memory.bytes / Use::kBytes + 1) * sizeof(Use));
}

void release_memory(Memory *memory) {
    Registry &r = registry();
    const std::unique_lock lock(r.mutex);
    r.by_base.erase(reinterpret_cast<std::uintptr_t>(memory->base));
    memory->live = false;
    memory->state.reset();
    memory->stored_by.reset();
    memory->uses.reset();
}

const Memory *find_memory(const void *p) {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    Registry &r = registry();
    const std::shared_lock lock(r.mutex);
    auto after = r.by_base.upper_bound(address);
    if (after == r.by_base.begin()) return nullptr;
    const Memory *memory = std::prev(after)->second;
    return memory->offset_of(address) <= memory->bytes ? memory : nullptr;
}

Distinct take_distinct(const Memory &memory, std::size_t begin, std::size_t end) {
    constexpr std::size_t kSector = 32;
    std::uint8_t *state = memory.state.get();
    Distinct d;
    for (std::size_t at = begin; at < end;) {
        const std::size_t stop = std::min(end, (at / kSector + 1) * kSector);
        unsigned read = 0, stored = 0;
        for (; at < stop; ++at) {
            read += (state[at] & Memory::kRead) != 0;
            stored += (state[at] & Memory::kStored) != 0;
            state[at] &= Memory::kWritten;
        }
        d.bytes_read += read;
        d.bytes_written += stored;
        d.sectors_read += read != 0;
        d.sectors_written += stored != 0;
    }
    if (d.bytes_written != 0) std::memset(memory.stored_by.get() + begin, 0, end - begin);
    return d;
}

void forget_launch() {
    Registry &r = registry();
    const std::shared_lock lock(r.mutex);
    for (const auto &[base, memory] : r.by_base) {
        for (std::size_t i = 0; i < memory->bytes; ++i) memory->state[i] &= Memory::kWritten;
        std::memset(memory->stored_by.get(), 0, memory->bytes);
    }
}

RawBuffer::RawBuffer(std::string name, std::size_t bytes) {
    // One more unit, so that the end of one buffer is never the start of another.
    const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
    void *base = std::aligned_alloc(kAlignment, rounded);
    if (base == nullptr) throw std::bad_alloc();
    std::memset(base, 0xff, rounded);
    memory_ = register_memory(base, bytes, std::move(name));
}

RawBuffer::~RawBuffer() {
    release_memory(memory_);
    std::free(memory_->base);
}

void RawBuffer::upload(std::size_t begin, std::span<const std::byte> bytes) {
    KIMI_CHECK(begin <= memory_->bytes && bytes.size() <= memory_->bytes - begin);
    if (bytes.empty()) return;
    std::memcpy(memory_->base + begin, bytes.data(), bytes.size());
    memory_->mark_written(begin, bytes.size(), true);
}

void RawBuffer::poison(std::size_t begin, std::size_t count) {
    KIMI_CHECK(begin <= memory_->bytes && count <= memory_->bytes - begin);
    std::memset(memory_->base + begin, 0xff, count);
    memory_->mark_written(begin, count, false);
}

}  // namespace kimi::simt::host
