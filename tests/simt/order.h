// Which accesses to shared memory are ordered before which: vector clocks of one block.
//
// Every thread has a stamp that grows when it releases (arrives somewhere). What a thread knows of
// the others is kept per warp ("all lanes of warp w up to stamp s"), and per thread only where that
// is too coarse. Three cases need no vectors at all, and they are nearly all cases: everything
// before the last barrier of the whole block is known to everybody; everything before the last
// barrier of a whole warp is known to its lanes; and a thread knows itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

namespace kimi::simt::host {

struct Thread;
struct Warp;
class Block;

using Stamp = std::uint32_t;

inline constexpr unsigned kMaxThreads = 1024;
inline constexpr unsigned kMaxWarps = 32;
// Each mbarrier has an agent that stands for the bulk copies it counts. Agents are numbered after
// the threads as writers, and after the warps as groups.
inline constexpr unsigned kMaxAgents = 32;
inline constexpr unsigned kGroups = kMaxWarps + kMaxAgents;

struct Knowledge {
    std::array<Stamp, kGroups> group{};
    bool has_threads = false;
    std::vector<Stamp> thread;  // by thread number, if has_threads

    void join(const Knowledge &other);
};

class Order {
  public:
    void reset(Block &block);

    // Whether what `writer` did at `stamp` is ordered before what `reader` does now.
    bool before(unsigned writer, Stamp stamp, const Thread &reader) const {
        return (stamp <= block_barrier_ && writer < kMaxThreads) ||
               before_slow(writer, stamp, reader);
    }
    // The same for all lanes of a warp together: program order of one lane is not enough.
    bool before_warp(unsigned writer, Stamp stamp, const Warp &warp) const {
        return (stamp <= block_barrier_ && writer < kMaxThreads) ||
               before_warp_slow(writer, stamp, warp);
    }
    // Whether what all lanes of a warp (or an agent) did at stamp is ordered before.
    bool group_before(unsigned group, Stamp stamp, const Thread &reader) const;

    void block_barrier();
    void warp_barrier(Warp &warp, std::uint32_t lanes);
    // Gives all lanes of a warp the same stamp.
    static void align_stamps(Warp &warp);
    // What the thread did and knows goes into `channel`; a snapshot of that can be acquired.
    void release(Thread &thread, Knowledge &channel);
    const Knowledge *snapshot(Knowledge &channel);
    void acquire(Thread &thread, const Knowledge *known);
    // Acquires and releases at an address that is accessed atomically.
    void synchronise_at(Thread &thread, std::uint32_t offset);
    // The stamp of a new bulk copy.
    Stamp next_stamp() { return ++now_; }

    const Knowledge *nothing() const { return &nothing_; }

  private:
    // Stamps have 19 bits in the shadow. Near the limit all history is forgotten, which loses races
    // across that moment; a block barrier in time makes it exact.
    static constexpr Stamp kLimit = (1U << 19) - 2 * kMaxThreads;
    static constexpr std::size_t kMaxKnowledge = 1U << 16;

    bool before_warp_slow(unsigned writer, Stamp stamp, const Warp &warp) const;
    bool before_slow(unsigned writer, Stamp stamp, const Thread &reader) const;
    void release_to(Thread &thread, Knowledge &channel);
    Knowledge &fresh();
    const Knowledge *join(const Knowledge *a, const Knowledge *b);
    const Knowledge *join_lanes(const Warp &warp, std::uint32_t lanes);
    void keep_agents_only();
    void fold(Knowledge &known) const;
    void forget();
    void forget_if_exhausted() {
        if (now_ >= kLimit || n_used_ >= kMaxKnowledge) forget();
    }

    Block *block_ = nullptr;
    Stamp now_ = 0;            // no stamp is larger
    Stamp block_barrier_ = 0;  // stamps of threads up to here are known to all
    Knowledge nothing_;
    std::deque<Knowledge>
        pool_;  // immutable ones that threads point to; the first n_used_ are in use
    std::size_t n_used_ = 0;
    std::unordered_map<std::uint32_t, Knowledge> addresses_;
    struct Joined {
        const Knowledge *a = nullptr, *b = nullptr, *result = nullptr;
    };
    std::array<Joined, 64> joined_{};
};

}  // namespace kimi::simt::host
