// What JSON values a constraint allows, as a graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "constraint/fragment.h"

namespace kimi {

// Nodes, and what they are made of, are named by their index. depth is the least number of brackets
// and quotes that are open at once while a value is written, kNone if there is no value.
struct SchemaGraph {
    static constexpr std::uint32_t kNone = UINT32_MAX;
    static constexpr std::uint32_t kUnlimited = UINT32_MAX;

    struct String {
        Fragment content;       // what is between the quotes
        bool repeated = false;  // content is one character, of which there are min to max
        std::uint32_t min = 0, max = kUnlimited;
        std::uint32_t depth = kNone;
    };
    struct Array {
        std::vector<std::uint32_t> prefix;  // nodes of the first items
        std::uint32_t rest = kNone;         // node of the others
        std::uint32_t min = 0, max = kUnlimited;
        std::uint32_t depth = kNone;
    };
    struct Property {
        std::string name;
        std::uint32_t node;
        bool required = false;
    };
    struct Object {
        std::vector<Property> properties;
        std::uint32_t additional = kNone;  // node of other properties
        std::uint32_t depth = kNone;
    };
    // A value is one of these, or a value of one of `others`.
    struct Node {
        std::vector<std::uint32_t> words, strings, arrays, objects, others;
        std::uint32_t depth = kNone;
    };

    std::vector<Fragment> words;  // numbers, true, false, null
    std::vector<String> strings;
    std::vector<Array> arrays;
    std::vector<Object> objects;
    std::vector<Node> nodes;
};

// Sets all depths.
void measure_depth(SchemaGraph &graph, WorkMeter &meter);

}  // namespace kimi
