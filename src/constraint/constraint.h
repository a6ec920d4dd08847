// Constrained output: which texts a reply may be.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "constraint/limits.h"
#include "constraint/pushdown_dfa.h"

namespace kimi {

enum class ConstraintKind {
    json_schema,  // one value of the schema that the text is, see SchemaReader
    regex,        // the text is an expression that the whole reply matches, see parse_regex()
    tool_calls,   // a call of a function in the text, the array of tools of a chat request:
                  // functions.NAME:NUMBER, kArgumentsBegin, arguments
};

// Where a text stands in a constraint. Means something only to the constraint it comes from; may be
// copied as it is.
struct ConstraintState {
    struct Frame {
        std::uint32_t back, counter;
    };
    std::uint32_t state = 0;    // 0: behind the end, nothing is allowed
    std::uint32_t counter = 0;  // register of the innermost frame
    std::uint32_t depth = 0;    // frames around it
    std::array<Frame, kMaxNesting> frames{};
};

// JSON is written on one line, with one space or none behind , and :, and no other white space.
// Properties come in any order, each once, but additional ones may repeat; those of objects with
// more than 32 properties, and of objects that are alternatives of each other at the same place,
// come in the order of the schema, the additional ones last. Names of properties are written
// without needless escapes. Numbers and strings are as JSON has them, unless bounds or patterns
// apply: such strings have no needless escapes either.
//
// Immutable, and so usable from any number of threads.
class Constraint {
  public:
    Constraint(const PushdownNfa &nfa, WorkMeter &meter) : dfa_(nfa, meter) {}

    // Where a text begins.
    ConstraintState start() const { return {.state = dfa_.start()}; }
    // Appends a byte to the text. False, and the state may no longer be used, where no allowed
    // text begins like this.
    bool advance(ConstraintState &state, std::uint8_t byte) const;
    bool advance(ConstraintState &state, std::string_view bytes) const;
    // The text is complete.
    bool accepting(const ConstraintState &state) const { return dfa_.accepting(state.state); }

    const PushdownDfa &automaton() const { return dfa_; }

  private:
    PushdownDfa dfa_;
};

// Throws KIMI_INVALID_ARGUMENT and KIMI_UNSUPPORTED with the place in the text, the former also for
// a text that allows nothing; KIMI_TOO_LONG for one beyond the limits.
std::shared_ptr<const Constraint> compile_constraint(ConstraintKind kind, std::string_view text,
                                                     const ConstraintLimits &limits = {});

}  // namespace kimi
