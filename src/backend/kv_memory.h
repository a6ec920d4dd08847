// The KV memory as its owner sees it: whole pages and rings, moved and copied between passes.
//
// A page holds 64 tokens of all layers of the target and, of the drafter's full layers, their
// twins; a ring holds the drafter's sliding layers of one sequence. Byte strings have one layout
// for a model and KV type, however many ranks share the memory: a rank reads and writes its part of
// them and leaves the rest as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kimi {

class KvMemory {
  public:
    virtual ~KvMemory() = default;

    // Moves the target's KV of slot from[i] to slot to[i] of a sequence, all layers, in order of i.
    virtual void move_slots(std::span<const std::uint32_t> pages,
                            std::span<const std::uint32_t> from,
                            std::span<const std::uint32_t> to) = 0;
    virtual std::size_t page_bytes() const = 0;
    virtual std::size_t ring_bytes() const = 0;  // 0: no sliding layers
    virtual void copy_page(std::uint32_t from, std::uint32_t to) = 0;
    virtual void copy_ring(std::uint32_t from, std::uint32_t to) = 0;
    virtual void read_page(std::uint32_t page, std::byte *out) = 0;
    virtual void write_page(std::uint32_t page, const std::byte *in) = 0;
    virtual void read_ring(std::uint32_t ring, std::byte *out) = 0;
    virtual void write_ring(std::uint32_t ring, const std::byte *in) = 0;
};

}  // namespace kimi
