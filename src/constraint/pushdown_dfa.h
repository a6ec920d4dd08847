// Deterministic pushdown automata over bytes: what a constraint is when it runs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "constraint/pushdown_nfa.h"

namespace kimi {

// A state stands for the set of states that the nondeterministic automaton may be in, each with a
// link: in which state that run goes on behind the frame. An ending frame leaves a set of links;
// together with the return set, which has these states and the links that they have themselves, it
// gives the state that goes on in the outer frame. There are finitely many such sets, all known
// after compiling.
class PushdownDfa {
  public:
    // Explores what can be reached from the start. Throws KIMI_TOO_LONG by the meter.
    PushdownDfa(const PushdownNfa &nfa, WorkMeter &meter);

    // State 0 allows nothing; in every other state some text leads to acceptance, unless that would
    // open more than kMaxNesting frames.
    struct Move {
        enum class Kind : std::uint8_t { none, step, push, pop };
        Kind kind;
        std::uint32_t to;       // the next state, of a push in the new frame; of a pop: the links
        std::uint32_t back;     // of a push: the return set
        std::uint32_t depth;    // of a push: frames that it takes at least
        std::uint32_t counter;  // the register's new value, of a push in the outer frame
    };
    Move move(std::uint32_t state, std::uint32_t counter, std::uint8_t byte) const {
        const std::uint32_t entry = rows_[state * n_classes_ + class_of_[byte]];
        if (entry < kPush)
            return {entry == 0 ? Move::Kind::none : Move::Kind::step, entry, 0, 0, counter};
        return other_move(entry, counter);
    }
    // Where a frame that left these links returns to.
    std::uint32_t resume(std::uint32_t back, std::uint32_t links) const;

    bool accepting(std::uint32_t state) const { return (flags_[state] & kAccepting) != 0; }
    std::size_t n_states() const { return flags_.size(); }
    std::uint32_t start() const { return start_; }

    // Another register value from which the next n bytes, each adding at most 1, have the same
    // effect: one for many, where no limit is near.
    std::uint32_t equivalent(std::uint32_t state, std::uint32_t counter, std::uint32_t n) const;

  private:
    friend class Determinizer;

    // Entries of rows_: a state, or a kind and an index.
    static constexpr std::uint32_t kPush = 1u << 30, kPop = 2u << 30, kCases = 3u << 30;
    static constexpr std::uint32_t kIndex = kPush - 1;
    static constexpr std::uint8_t kAccepting = 1, kSetRegister = 2;

    struct Push {
        std::uint32_t child, back, depth;
        auto operator<=>(const Push &) const = default;
    };
    // The first of a list whose rule allows the register holds; the list ends with `last`.
    struct Case {
        RegisterRule rule;
        std::uint32_t entry;
        bool last;
    };
    Move other_move(std::uint32_t entry, std::uint32_t counter) const;

    std::array<std::uint8_t, 256> class_of_{};  // bytes that no edge tells apart
    std::uint32_t n_classes_ = 0;
    std::vector<std::uint32_t> rows_;  // [states, classes]
    std::vector<std::uint8_t> flags_;  // [states]
    std::vector<Push> pushes_;
    std::vector<Case> cases_;
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> returns_;  // links, state
    std::vector<std::uint32_t> limits_;  // where a rule changes, sorted
    std::uint32_t start_ = 0;
};

}  // namespace kimi
