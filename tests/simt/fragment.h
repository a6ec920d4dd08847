// Registers for tensor-core operations on the CPU.
//
// mma and ldmatrix are carried out by the warp together, and nobody needs the result until it looks
// at a fragment. So they are queued: a fragment remembers which queued operation will write it, and
// asking for its value makes the lane wait until the warp has done that operation.
#pragma once

#include <cstdint>
#include <type_traits>

namespace kimi::simt {
namespace host {

class PendingRegisters {
  public:
    static constexpr std::uint16_t kNone = 0xffff;

    PendingRegisters() = default;
    std::uint16_t operation() const { return operation_; }  // in the queue of the warp, or kNone
    std::uint16_t part() const { return part_; }            // which of its outputs
    bool pending() const { return operation_ != kNone; }

    // The values follow the object.
    std::uint32_t *words() { return reinterpret_cast<std::uint32_t *>(this + 1); }
    const std::uint32_t *words() const { return reinterpret_cast<const std::uint32_t *>(this + 1); }

    // Called by the queue.
    void expect(std::uint16_t operation, std::uint16_t part) const {
        operation_ = operation;
        part_ = part;
    }

    // Returns when nothing is pending.
    void settle() const {
        if (pending()) wait();
    }
    // Nobody will look at what the pending operation writes.
    void forget() const {
        if (pending()) cancel();
    }

  private:
    void wait() const;
    void cancel() const;

    mutable std::uint16_t operation_ = kNone, part_ = 0;
};

}  // namespace host

template <typename T, int N>
class Fragment : public host::PendingRegisters {
  public:
    static_assert(sizeof(T) == 4);

    Fragment() = default;
    Fragment(const Fragment &other) { copy(other); }
    Fragment &operator=(const Fragment &other) {
        forget();
        copy(other);
        return *this;
    }
    ~Fragment() { forget(); }

    T &operator[](int i) {
        settle();
        return v_[i];
    }
    const T &operator[](int i) const {
        settle();
        return v_[i];
    }

  private:
    void copy(const Fragment &other) {
        other.settle();
        for (int i = 0; i < N; ++i) v_[i] = other.v_[i];
    }

    T v_[N];
};

}  // namespace kimi::simt
