// What a running operation may touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simt/memory.h"

namespace kimi::cudart {

// How far each lane has come.
class Clock {
  public:
    void join(const Clock &other) {
        if (at_.size() < other.at_.size()) at_.resize(other.at_.size());
        for (std::size_t i = 0; i < other.at_.size(); ++i)
            if (at_[i] < other.at_[i]) at_[i] = other.at_[i];
    }
    void reach(std::size_t lane, std::uint64_t place) {
        if (at_.size() <= lane) at_.resize(lane + 1);
        at_[lane] = place;
    }
    bool covers(std::size_t lane, std::uint64_t place) const {
        return lane < at_.size() && at_[lane] >= place;
    }

  private:
    std::vector<std::uint64_t> at_;
};

// A pointer given to a call, and the allocation it points into; none: pageable memory of the host.
struct Pointer {
    std::byte *at = nullptr;
    const simt::host::Memory *memory = nullptr;
    bool anywhere = false;  // on any device

    Pointer() = default;
    Pointer(const void *p)
        : at(static_cast<std::byte *>(const_cast<void *>(p))), memory(simt::host::find_memory(p)) {}
    Pointer operator+(std::size_t bytes) const {
        Pointer p = *this;
        p.at += bytes;
        return p;
    }
    std::size_t offset() const { return memory->offset_of(reinterpret_cast<std::uintptr_t>(at)); }
    // Whether so many bytes from here on lie inside.
    bool holds(std::size_t bytes) const {
        return memory == nullptr ||
               (memory->live && offset() <= memory->bytes && bytes <= memory->bytes - offset());
    }
};

// What has begun, by number.
class Begun {
  public:
    struct Entry {
        std::size_t lane;
        std::uint64_t place;
        std::string name;
    };
    // From 1 on.
    std::uint32_t add(Entry entry) {
        entries_.push_back(std::move(entry));
        return static_cast<std::uint32_t>(entries_.size());
    }
    const Entry &operator[](std::uint32_t id) const { return entries_[id - 1]; }

  private:
    std::vector<Entry> entries_;
};

class Running final : public simt::host::User {
  public:
    Running(const Begun &begun, std::uint32_t id, const Clock &knows, int device)
        : User(id), begun_(begun), knows_(knows), device_(device) {}

    // Checks a range like an access of a kernel: inside a live allocation that the device can
    // reach, and ordered. Throws Error. Writing makes it readable.
    std::byte *read(const Pointer &from, std::size_t bytes);
    std::byte *write(const Pointer &to, std::size_t bytes);
    // Bytes that nobody wrote stay so.
    void copy(const Pointer &to, const Pointer &from, std::size_t bytes);
    static bool is_written(const Pointer &p, std::size_t bytes);
    // Makes bytes unwritten, which are 0xff then.
    static void forget(const Pointer &p, std::size_t bytes);

    std::string name_of(std::uint32_t other) const override { return begun_[other].name; }

  private:
    bool is_after(std::uint32_t other) const override {
        return knows_.covers(begun_[other].lane, begun_[other].place);
    }
    void check(const Pointer &p, std::size_t bytes, bool write);

    const Begun &begun_;
    const Clock &knows_;
    int device_;
};

}  // namespace kimi::cudart
