// Nondeterministic pushdown automata over bytes, as JSON needs them: an opening bracket or quote
// begins a frame, its counterpart returns to where the frame was begun.
//
// Each frame has a register. What opens and closes frames, and what the register counts, depends on
// the text alone: two runs over the same text always have the same frames with the same counts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "constraint/fragment.h"
#include "constraint/schema_graph.h"

namespace kimi {

// The register is 0 in a new frame; it counts characters of a string or commas of an array, or is
// the set of an object's properties that were written, as bits.
struct RegisterRule {
    enum class Condition : std::uint8_t {
        none,
        between,  // a <= register <= b
        lacks,    // some bit of a is not set
        has,      // all bits of a are set
    };
    Condition condition = Condition::none;
    std::uint32_t a = 0, b = UINT32_MAX;
    std::uint32_t add = 0, set = 0;  // what the edge does with the register

    bool allows(std::uint32_t value) const {
        switch (condition) {
            case Condition::none:
                return true;
            case Condition::between:
                return value >= a && value <= b;
            case Condition::lacks:
                return (a & ~value) != 0;
            case Condition::has:
                return (a & ~value) == 0;
        }
        return false;
    }
    auto operator<=>(const RegisterRule &) const = default;
};

// Stands for <|tool_call_argument_begin|>: no text has this byte.
inline constexpr char kArgumentsBegin = '\xFF';

struct PushdownNfa {
    enum class Kind : std::uint8_t {
        step,  // to `to`
        push,  // to `child` or `ordered_child`, and to `to` when that frame ends
        pop,   // ends the frame
    };
    struct Edge {
        std::uint8_t low, high;
        Kind kind = Kind::step;
        std::uint8_t depth = 0;  // of a push: frames that it takes at least
        std::uint32_t to = 0;
        std::uint32_t rule = 0;  // index of rules
        // Where the frame begins. An object takes its properties in any order, by its register;
        // of several objects that may begin here, each must take them in order.
        std::uint32_t child = 0, ordered_child = 0;
    };
    struct State {
        std::vector<Edge> edges;
        std::vector<std::uint32_t> moves;  // states that it also is in
        bool accepting = false;
        bool set_register = false;  // the frame's register is a set
    };

    std::vector<State> states;
    std::vector<RegisterRule> rules{{}};  // the first is empty
    std::uint32_t start = 0;
};

// Values of a node, as json.dumps() writes them, but the space behind , and : may be missing.
PushdownNfa schema_nfa(const SchemaGraph &graph, std::uint32_t node, WorkMeter &meter);

// Calls of functions, each with its name and the node of its arguments: functions.NAME:NUMBER, the
// byte kArgumentsBegin, and the arguments.
PushdownNfa calls_nfa(const SchemaGraph &graph,
                      const std::vector<std::pair<std::string, std::uint32_t>> &functions,
                      WorkMeter &meter);

// What a fragment accepts.
PushdownNfa fragment_nfa(const Fragment &fragment);

}  // namespace kimi
