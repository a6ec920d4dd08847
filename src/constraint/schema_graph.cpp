#include "constraint/schema_graph.h"

#include <algorithm>

namespace kimi {
namespace {

constexpr std::uint32_t kNone = SchemaGraph::kNone;

// A least fixed point: values of depth 0 first, then what they make possible.
class DepthMeter {
  public:
    DepthMeter(SchemaGraph &graph, WorkMeter &meter) : graph_(graph), meter_(meter) {}

    bool pass() {
        bool changed = false;
        const auto lower = [&](std::uint32_t &depth, std::uint32_t value) {
            meter_.step();
            if (value >= depth || value > kMaxNesting) return;
            depth = value;
            changed = true;
        };
        for (SchemaGraph::Array &array : graph_.arrays) lower(array.depth, of(array));
        for (SchemaGraph::Object &object : graph_.objects) lower(object.depth, of(object));
        // Mostly, nodes come before what they are made of.
        for (std::size_t i = graph_.nodes.size(); i-- > 0;)
            lower(graph_.nodes[i].depth, of(graph_.nodes[i]));
        return changed;
    }

  private:
    static std::uint32_t around(std::uint32_t inner) { return inner == kNone ? kNone : inner + 1; }
    std::uint32_t node(std::uint32_t index) const {
        return index == kNone ? kNone : graph_.nodes[index].depth;
    }

    std::uint32_t of(const SchemaGraph::Array &array) {
        if (array.min > array.max) return kNone;
        std::uint32_t inner = 0;
        const std::size_t n = std::min<std::size_t>(array.min, array.prefix.size());
        meter_.step(n);
        for (std::size_t i = 0; i < n; ++i) inner = std::max(inner, node(array.prefix[i]));
        if (array.min > n) inner = std::max(inner, node(array.rest));
        return around(inner);
    }
    std::uint32_t of(const SchemaGraph::Object &object) {
        std::uint32_t inner = 0;
        meter_.step(object.properties.size());
        for (const SchemaGraph::Property &property : object.properties)
            if (property.required) inner = std::max(inner, node(property.node));
        return around(inner);
    }
    std::uint32_t of(const SchemaGraph::Node &node) {
        std::uint32_t depth = kNone;
        meter_.step(node.others.size() + node.arrays.size() + node.objects.size());
        for (const std::uint32_t i : node.words)
            if (!graph_.words[i].empty()) depth = 0;
        for (const std::uint32_t i : node.strings) depth = std::min(depth, graph_.strings[i].depth);
        for (const std::uint32_t i : node.arrays) depth = std::min(depth, graph_.arrays[i].depth);
        for (const std::uint32_t i : node.objects) depth = std::min(depth, graph_.objects[i].depth);
        for (const std::uint32_t i : node.others) depth = std::min(depth, this->node(i));
        return depth;
    }

    SchemaGraph &graph_;
    WorkMeter &meter_;
};

}  // namespace

void measure_depth(SchemaGraph &graph, WorkMeter &meter) {
    for (SchemaGraph::String &string : graph.strings)
        if (!string.content.empty() && string.min <= string.max) string.depth = 1;
    DepthMeter depths(graph, meter);
    while (depths.pass()) continue;
}

}  // namespace kimi
