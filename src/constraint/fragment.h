// Finite automata over bytes: what a number, a word or the inside of a string may be.
#pragma once

#include <cstdint>
#include <vector>

#include "constraint/limits.h"

namespace kimi {

// Nondeterministic; every edge reads a byte. Every state is reachable and can reach acceptance, so
// no states means that nothing is accepted.
struct Fragment {
    struct Edge {
        std::uint8_t low, high;
        std::uint32_t to;
    };
    struct State {
        std::vector<Edge> edges;
        bool accepting = false;
    };
    std::vector<State> states;  // the first is the start

    bool empty() const { return states.empty(); }
};

// Accepts what both accept.
Fragment intersection(const Fragment &a, const Fragment &b, WorkMeter &meter);

// Collects states, edges, and moves that read nothing.
class FragmentBuilder {
  public:
    explicit FragmentBuilder(WorkMeter &meter) : meter_(&meter) {}

    std::uint32_t add_state();
    void add_edge(std::uint32_t from, std::uint8_t low, std::uint8_t high, std::uint32_t to) {
        states_[from].edges.push_back({low, high, to});
    }
    void add_move(std::uint32_t from, std::uint32_t to) { moves_[from].push_back(to); }
    WorkMeter &meter() { return *meter_; }

    // What leads from the first state added to `accepting`.
    Fragment finish(std::uint32_t accepting) const;

  private:
    WorkMeter *meter_;
    std::vector<Fragment::State> states_;
    std::vector<std::vector<std::uint32_t>> moves_;
};

}  // namespace kimi
