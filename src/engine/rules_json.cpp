#include "engine/rules_json.h"

#include "base/error.h"
#include "base/json.h"

namespace kimi {
namespace {

Json array_of(std::vector<Json> items) {
    Json json;
    json.kind = Json::Kind::array;
    json.items = std::move(items);
    return json;
}
Json number(double value) {
    Json json;
    json.kind = Json::Kind::real;
    json.real = value;
    return json;
}
Json string(const std::string &text) {
    Json json;
    json.kind = Json::Kind::string;
    json.text = text;
    return json;
}
Json strings(const std::vector<std::string> &texts) {
    std::vector<Json> items;
    for (const std::string &text : texts) items.push_back(string(text));
    return array_of(std::move(items));
}

const Json &expect(const Json &json, Json::Kind kind) {
    if (!json.is(kind)) fail(KIMI_CORRUPT, "the saved session's rules contradict themselves");
    return json;
}
const std::vector<Json> &items(const Json &json, std::size_t at_least) {
    if (expect(json, Json::Kind::array).items.size() < at_least)
        fail(KIMI_CORRUPT, "the saved session's rules end early");
    return json.items;
}
std::vector<std::string> texts(const Json &json) {
    std::vector<std::string> out;
    for (const Json &item : items(json, 0)) out.push_back(expect(item, Json::Kind::string).text);
    return out;
}

}  // namespace

// [constraint kind, constraint text] or [], [token, bias, ...], [stop string, ...], [tool, ...]
std::string dump_rules(const ReplyRules &rules) {
    std::vector<Json> constraint, biases;
    if (rules.constraint)
        constraint = {number(static_cast<int>(rules.constraint->kind())),
                      string(rules.constraint->text())};
    for (const auto &[token, bias] : rules.biases)
        biases.insert(biases.end(), {number(token), number(bias)});
    return dump_json(array_of({array_of(std::move(constraint)), array_of(std::move(biases)),
                               strings(rules.stop_strings), strings(rules.tools)}));
}

ReplyRules read_rules(Engine &engine, std::string_view text) {
    const Json json = parse_json(text, "the saved session's rules", KIMI_CORRUPT);
    const std::vector<Json> &parts = items(json, 4);
    ReplyRules rules;
    if (!items(parts[0], 0).empty()) {
        const std::vector<Json> &constraint = items(parts[0], 2);
        const double kind = expect(constraint[0], Json::Kind::real).real;
        if (!(kind >= 0 && kind <= static_cast<int>(ConstraintKind::tool_calls)))
            fail(KIMI_CORRUPT, "the saved session's constraint is of kind ", kind);
        rules.constraint =
            engine.constraints().get(static_cast<ConstraintKind>(static_cast<int>(kind)),
                                     expect(constraint[1], Json::Kind::string).text);
    }
    const std::vector<Json> &biases = items(parts[1], 0);
    for (std::size_t i = 0; i + 1 < biases.size(); i += 2) {
        const double token = expect(biases[i], Json::Kind::real).real;
        const double bias = expect(biases[i + 1], Json::Kind::real).real;
        if (!(token >= 0 && token < engine.vocab() && bias >= -100 && bias <= 100))
            fail(KIMI_CORRUPT, "the saved session has a bias of ", bias, " for token ", token);
        rules.biases.push_back({static_cast<std::int32_t>(token), static_cast<float>(bias)});
    }
    for (const Json &stop : items(parts[2], 0)) {
        const std::string &string = expect(stop, Json::Kind::string).text;
        if (string.empty() || string.size() > KIMI_MAX_STOP_BYTES ||
            rules.stop_strings.size() == KIMI_MAX_STOP_STRINGS)
            fail(KIMI_CORRUPT, "the saved session's stop strings are too many, or too long");
        rules.stop_strings.push_back(string);
    }
    rules.tools = texts(parts[3]);
    return rules;
}

}  // namespace kimi
