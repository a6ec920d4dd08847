#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "constraint/pushdown_nfa.h"
#include "constraint/regex.h"

namespace kimi {
namespace {

using Kind = PushdownNfa::Kind;
using Condition = RegisterRule::Condition;

constexpr std::uint32_t kNone = SchemaGraph::kNone;
constexpr std::uint32_t kUnlimited = SchemaGraph::kUnlimited;
constexpr std::size_t kMaxSet = 32;  // bits of a register

// The inside of a JSON string.
std::string spelled(const std::string &name) {
    const std::string quoted = dump_json(Json{.kind = Json::Kind::string, .text = name});
    return quoted.substr(1, quoted.size() - 2);
}

// Names as a tree of bytes, next to the names that are not in it.
struct KeyTree {
    struct Node {
        std::map<std::uint8_t, std::uint32_t> next;
        std::uint32_t name = kNone;  // that ends here
        std::uint32_t names = 0;     // that end here or below, as bits, if at most kMaxSet
        // States of the automaton for all names after the same bytes.
        std::vector<std::uint32_t> all;
    };
    std::vector<Node> nodes{1};

    KeyTree(const std::vector<SchemaGraph::Property> &properties, const Fragment &all_names,
            const WorkMeter &meter) {
        nodes[0].all = {0};
        for (std::uint32_t i = 0; i < properties.size(); ++i) {
            const std::uint32_t bit = i < kMaxSet ? 1u << i : 0;
            std::uint32_t at = 0;
            nodes[at].names |= bit;
            for (const char c : spelled(properties[i].name)) {
                at = step(at, static_cast<std::uint8_t>(c), all_names);
                nodes[at].names |= bit;
            }
            nodes[at].name = i;
            meter.check_states(nodes.size());
        }
    }

  private:
    std::uint32_t step(std::uint32_t at, std::uint8_t byte, const Fragment &all_names) {
        const auto [next, is_new] =
            nodes[at].next.emplace(byte, static_cast<std::uint32_t>(nodes.size()));
        const std::uint32_t to = next->second;
        if (is_new) {
            Node node;
            for (const std::uint32_t state : nodes[at].all)
                for (const Fragment::Edge &edge : all_names.states[state].edges)
                    if (byte >= edge.low && byte <= edge.high) node.all.push_back(edge.to);
            nodes.push_back(std::move(node));
        }
        return to;
    }
};

class Builder {
  public:
    Builder(const SchemaGraph &graph, WorkMeter &meter)
        : graph_(graph),
          meter_(meter),
          all_names_(compile_regex("[^]*", Anchoring::whole, Spelling::json, "names", meter)) {
        nfa_.start = start_ = add_state();
        end_ = add_state();
        nfa_.states[end_].accepting = true;
    }

    PushdownNfa build_value(std::uint32_t node) {
        value(node, start_, end_);
        return build_bodies();
    }
    PushdownNfa build_calls(const std::vector<std::pair<std::string, std::uint32_t>> &functions) {
        for (const auto &[name, node] : functions) {
            const std::uint32_t zero = add_state(), digits = add_state(), arguments = add_state();
            const std::uint32_t number = add_text(start_, cat("functions.", name, ":"));
            add_byte(number, '0', zero);
            add_edge(number, {.low = '1', .high = '9', .to = digits});
            add_edge(digits, {.low = '0', .high = '9', .to = digits});
            for (const std::uint32_t end : {zero, digits})
                add_byte(end, kArgumentsBegin, arguments);
            value(node, arguments, end_);
        }
        return build_bodies();
    }

  private:
    // What a frame may hold.
    enum class Body : std::uint8_t { string, array, object, ordered_object };
    struct Pending {
        Body body;
        std::uint32_t index, start;
    };

    PushdownNfa build_bodies() {
        while (!pending_.empty()) {
            const Pending pending = pending_.back();
            pending_.pop_back();
            build_body(pending);
        }
        return std::move(nfa_);
    }

    std::uint32_t add_state() {
        meter_.check_states(nfa_.states.size() + 1);
        nfa_.states.emplace_back().set_register = in_set_;
        return static_cast<std::uint32_t>(nfa_.states.size() - 1);
    }
    void add_edge(std::uint32_t from, PushdownNfa::Edge edge, const RegisterRule &rule = {}) {
        meter_.step();
        const auto [at, is_new] =
            rules_.emplace(rule, static_cast<std::uint32_t>(nfa_.rules.size()));
        if (is_new) nfa_.rules.push_back(rule);
        edge.rule = at->second;
        nfa_.states[from].edges.push_back(edge);
    }
    void add_byte(std::uint32_t from, char c, std::uint32_t to, const RegisterRule &rule = {}) {
        const auto byte = static_cast<std::uint8_t>(c);
        add_edge(from, {.low = byte, .high = byte, .to = to}, rule);
    }
    void add_pop(std::uint32_t from, char c, const RegisterRule &rule = {}) {
        const auto byte = static_cast<std::uint8_t>(c);
        add_edge(from, {.low = byte, .high = byte, .kind = Kind::pop}, rule);
    }
    void add_move(std::uint32_t from, std::uint32_t to) {
        meter_.step();
        nfa_.states[from].moves.push_back(to);
    }
    // Behind c and, where there is one, the space behind it.
    std::uint32_t add_separator(std::uint32_t from, char c, const RegisterRule &rule = {}) {
        const std::uint32_t tight = add_state(), spaced = add_state();
        add_byte(from, c, tight, rule);
        add_byte(tight, ' ', spaced);
        add_move(tight, spaced);
        return spaced;
    }
    // The fragment's states, in their order; returns the first.
    std::uint32_t copy(const Fragment &fragment) {
        const auto first = static_cast<std::uint32_t>(nfa_.states.size());
        for (std::size_t i = 0; i < fragment.states.size(); ++i) add_state();
        for (std::uint32_t i = 0; i < fragment.states.size(); ++i)
            for (const Fragment::Edge &edge : fragment.states[i].edges)
                add_edge(first + i, {.low = edge.low, .high = edge.high, .to = first + edge.to});
        return first;
    }

    bool alive(std::uint32_t node) const {
        return node != kNone && graph_.nodes[node].depth != kNone;
    }

    // The node and those it refers to.
    std::vector<std::uint32_t> alternatives(std::uint32_t node) {
        std::vector<std::uint32_t> nodes{node};
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            for (const std::uint32_t other : graph_.nodes[nodes[i]].others) {
                meter_.step(nodes.size());
                if (std::find(nodes.begin(), nodes.end(), other) == nodes.end())
                    nodes.push_back(other);
            }
        }
        return nodes;
    }

    void value(std::uint32_t node, std::uint32_t from, std::uint32_t to) {
        for (const std::uint32_t other : alternatives(node)) {
            const SchemaGraph::Node &one = graph_.nodes[other];
            for (const std::uint32_t i : one.words) word(graph_.words[i], from, to);
            for (const std::uint32_t i : one.strings)
                push(from, '"', graph_.strings[i].depth, to, Body::string, i);
            for (const std::uint32_t i : one.arrays)
                push(from, '[', graph_.arrays[i].depth, to, Body::array, i);
            for (const std::uint32_t i : one.objects)
                push(from, '{', graph_.objects[i].depth, to, Body::object, i);
        }
    }
    void word(const Fragment &fragment, std::uint32_t from, std::uint32_t to) {
        if (fragment.empty()) return;
        const std::uint32_t first = copy(fragment);
        add_move(from, first);
        for (std::uint32_t i = 0; i < fragment.states.size(); ++i)
            if (fragment.states[i].accepting) add_move(first + i, to);
    }
    void push(std::uint32_t from, char c, std::uint32_t depth, std::uint32_t to, Body body,
              std::uint32_t index) {
        if (depth == kNone) return;
        PushdownNfa::Edge edge{.low = static_cast<std::uint8_t>(c),
                               .high = static_cast<std::uint8_t>(c),
                               .kind = Kind::push,
                               .depth = static_cast<std::uint8_t>(depth),
                               .to = to};
        const std::size_t n = body == Body::object ? graph_.objects[index].properties.size() : 0;
        if (body == Body::object) body = Body::ordered_object;
        edge.child = edge.ordered_child = start_of(body, index);
        if (n > 0 && n <= kMaxSet) edge.child = start_of(Body::object, index);
        add_edge(from, edge);
    }
    std::uint32_t start_of(Body body, std::uint32_t index) {
        const auto [at, is_new] = starts_.emplace(std::pair(body, index), 0);
        if (is_new) {
            const bool outer = std::exchange(in_set_, body == Body::object);
            at->second = add_state();
            in_set_ = outer;
            pending_.push_back({body, index, at->second});
        }
        return at->second;
    }
    void build_body(const Pending &pending) {
        switch (pending.body) {
            case Body::string:
                return build_string(graph_.strings[pending.index], pending.start);
            case Body::array:
                return build_array(graph_.arrays[pending.index], pending.start);
            case Body::object:
                in_set_ = true;
                build_object(graph_.objects[pending.index], pending.start);
                in_set_ = false;
                return;
            case Body::ordered_object:
                return build_ordered_object(graph_.objects[pending.index], pending.start);
        }
    }

    void build_string(const SchemaGraph::String &string, std::uint32_t start) {
        if (string.repeated) return build_characters(string, start);
        const std::uint32_t first = copy(string.content);
        add_move(start, first);
        for (std::uint32_t i = 0; i < string.content.states.size(); ++i)
            if (string.content.states[i].accepting) add_pop(first + i, '"');
    }
    // Characters from `start` back to it, counted where that matters.
    void build_characters(const SchemaGraph::String &string, std::uint32_t start) {
        const bool counted = string.min > 0 || string.max != kUnlimited;
        const auto &states = string.content.states;
        std::vector<std::uint32_t> number(states.size(), start);
        for (std::size_t i = 1; i < states.size(); ++i)
            if (!states[i].accepting) number[i] = add_state();
        for (std::size_t i = 0; i < states.size(); ++i) {
            for (const Fragment::Edge &edge : states[i].edges) {
                RegisterRule rule;
                if (i == 0 && string.max == 0) continue;
                if (i == 0 && string.max != kUnlimited)
                    rule.condition = Condition::between, rule.b = string.max - 1;
                if (counted && states[edge.to].accepting) rule.add = 1;
                add_edge(number[i], {.low = edge.low, .high = edge.high, .to = number[edge.to]},
                         rule);
            }
        }
        RegisterRule enough;
        if (string.min > 0) enough = {Condition::between, string.min};
        add_pop(start, '"', enough);
    }

    void build_array(const SchemaGraph::Array &array, std::uint32_t start) {
        const std::size_t n_prefix = array.prefix.size();
        const bool has_rest = alive(array.rest) && n_prefix < array.max;
        const auto is_item = [&](std::size_t i) {
            return i < array.max && (i < n_prefix ? alive(array.prefix[i]) : has_rest);
        };
        const bool counted = has_rest && (array.min > n_prefix + 1 || array.max != kUnlimited);
        const RegisterRule count{.add = counted ? 1u : 0u};
        if (array.min == 0) add_pop(start, ']');
        if (!is_item(0)) return;
        std::uint32_t slot = add_state();
        add_move(start, slot);
        for (std::size_t i = 0; i < n_prefix; ++i) {
            const std::uint32_t after = add_state();
            value(array.prefix[i], slot, after);
            if (i + 1 >= array.min) add_pop(after, ']');
            if (!is_item(i + 1)) return;
            slot = add_separator(after, ',', count);
        }
        const std::uint32_t after = add_state();
        value(array.rest, slot, after);
        RegisterRule enough, room = count;
        if (array.min > n_prefix + 1) enough = {Condition::between, array.min - 1};
        add_pop(after, ']', enough);
        if (array.max - 1 <= n_prefix) return;
        if (array.max != kUnlimited) room.condition = Condition::between, room.b = array.max - 2;
        add_move(add_separator(after, ',', room), slot);
    }

    // Properties in any order. The register has those that were written.
    void build_object(const SchemaGraph::Object &object, std::uint32_t start) {
        const bool others = alive(object.additional);
        const std::uint32_t after = add_state();
        std::uint32_t possible = 0, required = 0;
        std::vector<std::uint32_t> targets(object.properties.size(), kNone);
        for (std::size_t i = 0; i < targets.size(); ++i) {
            const SchemaGraph::Property &property = object.properties[i];
            if (!alive(property.node)) continue;
            possible |= 1u << i;
            if (property.required) required |= 1u << i;
            targets[i] = property_value(property.node, after);
        }
        const std::uint32_t other = others ? property_value(object.additional, after) : kNone;
        if (required == 0) add_pop(start, '}');
        add_pop(after, '}',
                required == 0 ? RegisterRule{} : RegisterRule{Condition::has, required});
        if (possible != 0 || others) {
            const std::uint32_t keys = add_keys(object, targets, other, possible);
            const RegisterRule room =
                others ? RegisterRule{} : RegisterRule{Condition::lacks, possible};
            add_byte(start, '"', keys);
            add_byte(add_separator(after, ',', room), '"', keys);
        }
    }

    // Properties in the order of the schema, then others.
    void build_ordered_object(const SchemaGraph::Object &object, std::uint32_t start) {
        const std::size_t n = object.properties.size();
        std::vector<std::uint32_t> after, keys;  // by properties behind us
        for (std::size_t i = 0; i <= n; ++i) {
            after.push_back(add_state());
            keys.push_back(add_state());
        }
        bool complete = true;  // none of the properties from here on is required
        bool possible = alive(object.additional);  // some name may follow
        if (possible) {
            const std::uint32_t other = property_value(object.additional, after[n]);
            add_move(keys[n], add_keys(object, std::vector(n, kNone), other, 0));
        }
        for (std::size_t i = n + 1; i-- > 0;) {
            if (i < n) {
                const SchemaGraph::Property &property = object.properties[i];
                if (alive(property.node))
                    add_value(add_text(keys[i], spelled(property.name) + '"'), property.node,
                              after[i + 1]);
                if (!property.required) add_move(keys[i], keys[i + 1]);
                complete = complete && !property.required;
                possible = alive(property.node) || possible;
            }
            if (complete) add_pop(after[i], '}');
            if (possible) add_byte(add_separator(after[i], ','), '"', keys[i]);
        }
        if (complete) add_pop(start, '}');
        if (possible) add_byte(start, '"', keys[0]);
    }

    // To behind the text.
    std::uint32_t add_text(std::uint32_t from, const std::string &text) {
        for (const char c : text) {
            const std::uint32_t next = add_state();
            add_byte(from, c, next);
            from = next;
        }
        return from;
    }
    // From behind a name.
    void add_value(std::uint32_t from, std::uint32_t node, std::uint32_t after) {
        value(node, add_separator(from, ':'), after);
    }
    std::uint32_t property_value(std::uint32_t node, std::uint32_t after) {
        const std::uint32_t start = add_state();
        add_value(start, node, after);
        return start;
    }

    // From behind the opening quote of a name to behind the closing one: to targets[i] for property
    // i, once in a frame, to `other` for names that no property has.
    std::uint32_t add_keys(const SchemaGraph::Object &object,
                           const std::vector<std::uint32_t> &targets, std::uint32_t other,
                           std::uint32_t possible) {
        const KeyTree tree(object.properties, all_names_, meter_);
        const std::uint32_t all = other == kNone ? kNone : add_names(other);
        std::vector<std::uint32_t> states;
        for (std::size_t i = 0; i < tree.nodes.size(); ++i) states.push_back(add_state());
        for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
            const KeyTree::Node &node = tree.nodes[i];
            for (const auto &[byte, next] : node.next) {
                const KeyTree::Node &child = tree.nodes[next];
                const bool open = other != kNone && !child.all.empty();
                const std::uint32_t names = child.names & possible;
                if (!open && names == 0) continue;
                add_byte(states[i], static_cast<char>(byte), states[next],
                         open ? RegisterRule{} : RegisterRule{Condition::lacks, names});
            }
            if (node.name != kNone && targets[node.name] != kNone) {
                const std::uint32_t bit = 1u << node.name;
                add_byte(states[i], '"', targets[node.name],
                         {.condition = Condition::lacks, .a = bit, .set = bit});
            }
            if (other != kNone) add_other_names(node, states[i], all, other);
        }
        return states[0];
    }
    // All names.
    std::uint32_t add_names(std::uint32_t to) {
        const std::uint32_t first = copy(all_names_);
        for (std::uint32_t i = 0; i < all_names_.states.size(); ++i)
            if (all_names_.states[i].accepting) add_byte(first + i, '"', to);
        return first;
    }
    // Where a name leaves the tree.
    void add_other_names(const KeyTree::Node &node, std::uint32_t from, std::uint32_t all,
                         std::uint32_t other) {
        bool ends = false;
        for (const std::uint32_t state : node.all) {
            ends = ends || all_names_.states[state].accepting;
            for (const Fragment::Edge &edge : all_names_.states[state].edges) {
                unsigned low = edge.low;
                const auto add = [&](unsigned end) {
                    if (low < end)
                        add_edge(from, {.low = static_cast<std::uint8_t>(low),
                                        .high = static_cast<std::uint8_t>(end - 1),
                                        .to = all + edge.to});
                };
                for (auto next = node.next.lower_bound(edge.low);
                     next != node.next.end() && next->first <= edge.high; ++next) {
                    add(next->first);
                    low = next->first + 1u;
                }
                add(edge.high + 1u);
            }
        }
        if (ends && node.name == kNone) add_byte(from, '"', other);
    }

    const SchemaGraph &graph_;
    WorkMeter &meter_;
    Fragment all_names_;
    PushdownNfa nfa_;
    std::uint32_t start_ = 0, end_ = 0;
    std::map<RegisterRule, std::uint32_t> rules_{{RegisterRule{}, 0}};
    std::map<std::pair<Body, std::uint32_t>, std::uint32_t> starts_;
    std::vector<Pending> pending_;
    bool in_set_ = false;
};

}  // namespace

PushdownNfa schema_nfa(const SchemaGraph &graph, std::uint32_t node, WorkMeter &meter) {
    return Builder(graph, meter).build_value(node);
}

PushdownNfa calls_nfa(const SchemaGraph &graph,
                      const std::vector<std::pair<std::string, std::uint32_t>> &functions,
                      WorkMeter &meter) {
    return Builder(graph, meter).build_calls(functions);
}

PushdownNfa fragment_nfa(const Fragment &fragment) {
    PushdownNfa nfa;
    for (const Fragment::State &state : fragment.states) {
        PushdownNfa::State &added = nfa.states.emplace_back();
        added.accepting = state.accepting;
        for (const Fragment::Edge &edge : state.edges)
            added.edges.push_back({.low = edge.low, .high = edge.high, .to = edge.to});
    }
    return nfa;
}

}  // namespace kimi
