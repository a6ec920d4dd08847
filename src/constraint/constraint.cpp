#include "constraint/constraint.h"

#include "base/error.h"
#include "base/json.h"
#include "constraint/regex.h"
#include "constraint/schema_reader.h"

namespace kimi {
namespace {

void check_satisfiable(const SchemaGraph &graph, std::uint32_t node, std::string_view what) {
    if (graph.nodes[node].depth == SchemaGraph::kNone)
        fail(KIMI_INVALID_ARGUMENT, what, ": no value satisfies this schema");
}

PushdownNfa compile_schema(std::string_view text, WorkMeter &meter) {
    const Json schema = parse_json(text, "schema");
    SchemaReader reader(meter);
    const std::uint32_t node = reader.read(schema, "schema");
    const SchemaGraph graph = reader.take();
    check_satisfiable(graph, node, "schema");
    return schema_nfa(graph, node, meter);
}

PushdownNfa compile_expression(std::string_view text, WorkMeter &meter) {
    const Fragment fragment =
        compile_regex(text, Anchoring::whole, Spelling::plain, "regex", meter);
    if (fragment.empty()) fail(KIMI_INVALID_ARGUMENT, "regex: no text matches it");
    return fragment_nfa(fragment);
}

PushdownNfa compile_calls(std::string_view text, WorkMeter &meter) {
    const Json tools = parse_json(text, "tools");
    // What a function without parameters takes: {}.
    const Json none = parse_json(R"({"properties": {}})", "none");
    SchemaReader reader(meter);
    std::vector<std::pair<std::string, std::uint32_t>> functions;
    for (std::size_t i = 0; i < tools.items.size(); ++i) {
        const std::string what = cat("tools[", i, "].function");
        const Json *function = tools.items[i].find("function");
        if (function == nullptr) continue;
        const Json *name = function->find("name");
        if (name == nullptr || !name->is(Json::Kind::string))
            fail(KIMI_INVALID_ARGUMENT, what, ".name: expected a string");
        const Json *parameters = function->find("parameters");
        if (parameters == nullptr || parameters->is(Json::Kind::null)) parameters = &none;
        functions.emplace_back(name->text, reader.read(*parameters, what + ".parameters"));
    }
    if (functions.empty()) fail(KIMI_INVALID_ARGUMENT, "tools: expected an array with functions");
    const SchemaGraph graph = reader.take();
    for (const auto &[name, node] : functions)
        check_satisfiable(graph, node, "arguments of " + name);
    return calls_nfa(graph, functions, meter);
}

PushdownNfa compile(ConstraintKind kind, std::string_view text, WorkMeter &meter) {
    switch (kind) {
        case ConstraintKind::json_schema:
            return compile_schema(text, meter);
        case ConstraintKind::regex:
            return compile_expression(text, meter);
        case ConstraintKind::tool_calls:
            return compile_calls(text, meter);
    }
    fail(KIMI_INTERNAL, "unknown kind of constraint");
}

}  // namespace

bool Constraint::advance(ConstraintState &state, std::uint8_t byte) const {
    using Kind = PushdownDfa::Move::Kind;
    const PushdownDfa::Move move = dfa_.move(state.state, state.counter, byte);
    switch (move.kind) {
        case Kind::none:
            return false;
        case Kind::step:
            state.state = move.to;
            state.counter = move.counter;
            return true;
        case Kind::push:
            if (state.depth + move.depth > kMaxNesting) return false;
            state.frames[state.depth++] = {move.back, move.counter};
            state.state = move.to;
            state.counter = 0;
            return true;
        case Kind::pop: {
            if (state.depth == 0) return false;
            const ConstraintState::Frame frame = state.frames[--state.depth];
            state.state = dfa_.resume(frame.back, move.to);
            state.counter = frame.counter;
            return state.state != 0;
        }
    }
    return false;
}

bool Constraint::advance(ConstraintState &state, std::string_view bytes) const {
    for (const char byte : bytes)
        if (!advance(state, static_cast<std::uint8_t>(byte))) return false;
    return true;
}

std::shared_ptr<const Constraint> compile_constraint(ConstraintKind kind, std::string_view text,
                                                     const ConstraintLimits &limits) {
    if (text.size() > limits.max_text)
        fail(KIMI_TOO_LONG, "constraint too complex: its text has ", text.size(),
             " bytes, at most ", limits.max_text, " are read");
    WorkMeter meter(limits);
    return std::make_shared<const Constraint>(compile(kind, text, meter), meter);
}

}  // namespace kimi
