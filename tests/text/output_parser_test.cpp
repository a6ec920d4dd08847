#include "text/output_parser.h"

#include <algorithm>
#include <map>

#include "text/fixtures.h"

using namespace kimi;

namespace {

using test::Tokens, test::bytes_of;
using Kind = OutputEvent::Kind;
using Events = std::vector<OutputEvent>;
using Names = std::vector<std::string>;

const Tokenizer &nano() {
    static const Tokenizer tokenizer(test::nano());
    return tokenizer;
}

// Tokens of a text in which special tokens are named, as a model would write it.
Tokens written(std::string_view text, const Tokenizer &tokenizer = test::k26()) {
    return tokenizer.encode(text, true);
}

Tokens joined(std::initializer_list<Tokens> parts) {
    Tokens all;
    for (const Tokens &part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

struct Case {
    Tokens tokens;
    OutputStart start = {};
    Names names = {};
    const Tokenizer *tokenizer = &test::k26();

    OutputParser parser() const {
        return {*tokenizer, start, std::make_shared<const Names>(names)};
    }
};

// Pushes pieces whose sizes `next` gives. Each goes to a vector of its own, as a session does it;
// joined, these must be what one vector collects.
template <typename Next>
Events in_pieces(const Case &c, Next next) {
    OutputParser parser = c.parser();
    Events all, together;
    const auto add = [&](const Events &events) {
        for (const OutputEvent &event : events) {
            const bool text = event.kind <= Kind::content || event.kind == Kind::call_arguments;
            if (text) CHECK(!event.text.empty());
            CHECK(find_invalid_utf8(event.text) == std::string::npos);
            if (text && !all.empty() && all.back().kind == event.kind)
                all.back().text += event.text;
            else
                all.push_back(event);
        }
    };
    OutputParser collecting = parser;
    for (std::size_t done = 0; done < c.tokens.size();) {
        const std::size_t n = std::min<std::size_t>(next(), c.tokens.size() - done);
        const auto piece = std::span(c.tokens).subspan(done, n);
        Events events;
        OutputParser fork = parser;  // a copy goes on where the parser was
        fork.push(piece, events);
        parser = fork;
        add(events);
        collecting.push(piece, together);
        done += n;
    }
    Events events;
    parser.finish(events);
    collecting.finish(together);
    add(events);
    CHECK(all == together);
    CHECK(parser.n_calls() == std::count_if(all.begin(), all.end(), [](const OutputEvent &e) {
              return e.kind == Kind::call_end;
          }));
    return all;
}

// The events of the whole reply, after checking that other groupings give the same.
Events parsed(const Case &c) {
    const Events whole = in_pieces(c, [&] { return c.tokens.size(); });
    CHECK(in_pieces(c, [] { return 1; }) == whole);
    CHECK(in_pieces(c, [] { return 2; }) == whole);
    CHECK(in_pieces(c, [] { return 3; }) == whole);
    test::Random random(c.tokens.size());
    for (int i = 0; i < 5; ++i)
        CHECK(in_pieces(c, [&] { return 1 + test::below(random, 9); }) == whole);
    return whole;
}

Events parsed(std::string_view text, bool reasoning = false, Names names = {}) {
    return parsed(Case{written(text), {.reasoning = reasoning}, std::move(names)});
}

Events call(std::string id, std::string name, std::string arguments) {
    Events events{{Kind::call_begin, std::move(name), std::move(id)}};
    if (!arguments.empty()) events.push_back({Kind::call_arguments, std::move(arguments)});
    events.push_back({Kind::call_end, {}});
    return events;
}

Events sum(std::initializer_list<Events> parts) {
    Events all;
    for (const Events &part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}
Events reasoning(std::string text) {
    return {{Kind::reasoning, std::move(text)}};
}
Events content(std::string text) {
    return {{Kind::content, std::move(text)}};
}

// Name and id of the only call whose id is written like this.
std::pair<std::string, std::string> called(std::string_view id, Names names = {}) {
    const Events events =
        parsed(cat("<|tool_call_begin|>", id, "<|tool_call_argument_begin|>{}<|tool_call_end|>"),
               false, std::move(names));
    REQUIRE(events.size() == 3);
    return {events[0].text, events[0].id};
}

constexpr std::string_view kCall =
    "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|>";

// --- A naive parser of the whole reply -----------------------------------------------------------

// The reply as one string, in which markers are control characters.
enum : char { kSection = 1, kSectionEnd, kCallBegin, kArguments, kCallEnd, kThink, kThinkEnd };
std::string with_markers(const Case &c) {
    static const std::map<std::string_view, std::string> marks = {
        {"<|tool_calls_section_begin|>", {kSection}},
        {"<|tool_calls_section_end|>", {kSectionEnd}},
        {"<|tool_call_begin|>", {kCallBegin}},
        {"<|tool_call_argument_begin|>", {kArguments}},
        {"<|tool_call_end|>", {kCallEnd}},
        {"<think>", {kThink}},
        {"</think>", {kThinkEnd}},
        {"<|im_end|>", ""},
        {"[EOS]", ""},
        {"[EOT]", ""}};
    std::string out, bytes;
    for (const std::int32_t token : c.tokens) {
        const std::string_view text = c.tokenizer->token_bytes(token);
        const auto mark = marks.find(text);
        bytes += c.tokenizer->is_special(token) && mark != marks.end() ? mark->second
                                                                       : std::string(text);
    }
    Utf8Stream utf8;
    utf8.push(bytes, out);
    utf8.flush(out);
    return out;
}

void add_text(Events &events, Kind kind, std::string_view text) {
    if (text.empty()) return;
    if (events.empty() || events.back().kind != kind) events.push_back({kind, {}});
    events.back().text += text;
}

// Replies whose calls have canonical, distinct ids.
Events naive_events(const Case &c) {
    std::string rest = with_markers(c);
    const auto take_until = [&rest](std::string_view ends) {
        const std::size_t end = std::min(rest.find_first_of(ends), rest.size());
        const std::string text = rest.substr(0, end);
        rest.erase(0, end);
        return text;
    };
    Events events;
    bool thinking = c.start.reasoning, closed = !thinking, in_section = false;
    if (rest.starts_with(kThink)) rest.erase(0, 1), thinking = true, closed = false;
    const std::string_view outside = "\1\2\3\4\5\6\7";
    while (!rest.empty()) {
        std::string text = take_until(outside);
        for (const auto &[spelled, mark] :
             {std::pair<std::string_view, char>{"<|tool_call_section_begin|>", kSection},
              {"<|tool_call_section_end|>", kSectionEnd}}) {
            const std::size_t at = text.find(spelled);
            if (at == text.npos) continue;
            std::string before = text.substr(0, at), after = text.substr(at + spelled.size());
            rest = after + rest;
            rest.insert(0, 1, mark);
            text = before;
        }
        if (in_section && text.find_first_not_of(" \n") == text.npos) text.clear();
        if (in_section && !text.empty()) {
            text.erase(0, text.find_first_not_of(" \n"));
            in_section = false;
        }
        add_text(events, thinking ? Kind::reasoning : Kind::content, text);
        if (rest.empty()) break;
        const char mark = rest[0];
        rest.erase(0, 1);
        if (mark == kThinkEnd && !closed) {
            closed = true, thinking = false;
        } else if (mark == kThink || mark == kThinkEnd) {
            in_section = false;
            add_text(events, thinking ? Kind::reasoning : Kind::content,
                     mark == kThink ? "<think>" : "</think>");
        } else if (mark == kSection || mark == kSectionEnd) {
            if (mark == kSection) thinking = false;
            in_section = mark == kSection;
        } else if (mark == kCallBegin) {
            thinking = false, in_section = true;
            const std::string id = take_until("\1\2\3\4\5");
            if (rest.empty()) break;
            const std::size_t dot = id.find('.');
            events.push_back({Kind::call_begin, id.substr(dot + 1, id.rfind(':') - dot - 1), id});
            if (rest[0] == kArguments) {
                rest.erase(0, 1);
                std::string arguments;
                for (const char a : take_until("\1\2\3\5")) {
                    if (a == kArguments) continue;
                    arguments += a == kThink      ? "<think>"
                                 : a == kThinkEnd ? "</think>"
                                                  : std::string(1, a);
                }
                add_text(events, Kind::call_arguments, arguments);
            }
            events.push_back({rest.empty() ? Kind::call_cut : Kind::call_end, {}});
            if (!rest.empty() && rest[0] == kCallEnd) rest.erase(0, 1);
        }
    }
    return events;
}

}  // namespace

TEST_CASE("output parser: reasoning, content, calls, content") {
    const std::string reply =
        "Let me look.</think>I'll call.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
        "<|tool_call_argument_begin|>{\"city\": \"Zürich 😀\"}<|tool_call_end|><|tool_call_begin|>"
        "functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
        "Done.<|im_end|>";
    const Events rest =
        sum({content("I'll call."), call("functions.f:0", "f", "{\"city\": \"Zürich 😀\"}"),
             call("functions.g:1", "g", "{}"), content("Done.")});
    CHECK(parsed(reply, true) == sum({reasoning("Let me look."), rest}));
    CHECK(parsed("<think>" + reply) == sum({reasoning("Let me look."), rest}));
    CHECK(parsed("Hello!<|im_end|>") == content("Hello!"));
    CHECK(parsed("Only thoughts", true) == reasoning("Only thoughts"));
    CHECK(parsed("", true).empty());
    CHECK(parsed("<|im_end|>", true).empty());
}

TEST_CASE("output parser: a section or a bare call ends reasoning") {
    const Events expected = sum({reasoning("Hm."), call("functions.f:0", "f", "{\"a\": 1}")});
    for (const char *opening : {"", "<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"})
        for (const char *closing :
             {"", "<|tool_calls_section_end|>", "<|tool_call_section_end|>"}) {
            const std::string text = cat("Hm.", opening, kCall, closing);
            CAPTURE(text);
            CHECK(parsed(text, true) == expected);
            CHECK(parsed(text + "Bye.", true) == sum({expected, content("Bye.")}));
            // The thought is closed late: its end is no text.
            CHECK(parsed(text + "</think>Bye.", true) == sum({expected, content("Bye.")}));
        }
}

TEST_CASE("output parser: white space between the markers of a section is dropped, text is not") {
    CHECK(parsed(cat("A\n<|tool_calls_section_begin|>\n", kCall,
                     "\n <|tool_calls_section_end|>\n\nB\n")) ==
          sum({content("A\n"), call("functions.f:0", "f", "{\"a\": 1}"), content("\n\nB\n")}));
    CHECK(parsed("A<|tool_calls_section_begin|> not a call <|tool_calls_section_end|> B") ==
          content("Anot a call  B"));
}

TEST_CASE("output parser: section markers spelled in the singular, wherever tokens divide them") {
    const Events expected = sum({content("a<|tool_call_"), call("functions.f:0", "f", "{\"a\": 1}"),
                                 content("<b<|tool_call_section_end|<")});
    const std::string begin = "<|tool_call_section_begin|>", end = "<|tool_call_section_end|>";
    const std::string tail = "<b<|tool_call_section_end|<";
    CHECK(parsed({joined({bytes_of("a<|tool_call_" + begin), written(kCall),
                          bytes_of(end + tail)})}) == expected);
    for (std::size_t i = 0; i <= begin.size(); ++i) {
        const std::size_t k = std::min(i, end.size());
        CHECK(parsed({joined({written("a<|tool_call_" + begin.substr(0, i)),
                              written(begin.substr(i)), written(kCall), written(end.substr(0, k)),
                              written(end.substr(k) + tail)})}) == expected);
    }
    // In arguments they are text, and so are the plural spellings anywhere.
    const Tokens plural = test::k26().encode("<|tool_calls_section_begin|>", false);
    CHECK(parsed({plural}) == content("<|tool_calls_section_begin|>"));
    CHECK(parsed(cat("<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>", begin, end,
                     "<|tool_call_end|>")) == call("functions.f:0", "f", begin + end));
    // What was held back comes out when something else follows.
    CHECK(parsed("1 <") == content("1 <"));
    CHECK(parsed("1 <|tool_call_section</think>x", true) ==
          sum({reasoning("1 <|tool_call_section"), content("x")}));
}

TEST_CASE("output parser: think markers are text where they mark nothing") {
    CHECK(parsed("a<think>b</think>c") == content("a<think>b</think>c"));
    CHECK(parsed("a<think>b</think>c</think>d", true) ==
          sum({reasoning("a<think>b"), content("c</think>d")}));
    CHECK(parsed("<think>a</think>b", true) == sum({reasoning("a"), content("b")}));
    CHECK(parsed("<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>\"</think>\""
                 "<|tool_call_end|>",
                 true) == call("functions.f:0", "f", "\"</think>\""));
}

TEST_CASE("output parser: calls that lack markers, and replies that end inside one") {
    const std::string head = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{";
    const Events begun{{Kind::call_begin, "f", "functions.f:0"}, {Kind::call_arguments, "{"}};
    const Events cut{{Kind::call_cut, {}}}, end{{Kind::call_end, {}}};
    CHECK(parsed(head) == sum({begun, cut}));
    CHECK(parsed(head + "<|im_end|>") == sum({begun, cut}));
    CHECK(parsed(head + "<|tool_calls_section_end|>x") == sum({begun, end, content("x")}));
    CHECK(parsed(head + "<|tool_call_begin|>functions.g:1<|tool_call_end|>") ==
          sum({begun, end, call("functions.g:1", "g", "")}));
    CHECK(parsed("a<|tool_call_begin|>functions.f") == content("a"));
    CHECK(parsed("a<|tool_call_begin|> <|tool_call_end|>b") == content("ab"));
    CHECK(parsed("a<|tool_call_end|><|tool_call_argument_begin|><|tool_calls_section_end|>b") ==
          content("ab"));
    // A character cut by the end of the arguments or of the reply.
    const Tokens part = bytes_of("\xF0\x9F");
    CHECK(parsed({joined({written(head), part, written("<|tool_call_end|>"), part})}) ==
          sum({{begun[0], {Kind::call_arguments, "{\uFFFD"}}, end, content("\uFFFD")}));
}

TEST_CASE("output parser: names are found in ids of every style") {
    const Names names = {"exec", "get_weather", "get", "a.b", "exec5x", "functions_y"};
    const std::pair<const char *, const char *> known[] = {
        {"functions.exec:0", "exec"},
        {"exec:0", "exec"},
        {"functionsexec5", "exec"},
        {"functions_get_weather_1", "get_weather"},
        {"functions.get_weather", "get_weather"},
        {"get-7", "get"},
        {"functions.a.b:3", "a.b"},
        {"x.exec:1", "exec"},
        {" functions.exec:0\n", "exec"},
        {"functions.functions_y:0", "functions_y"},
        {"functions_y_2", "functions_y"},
        {"functionsexec5x3", "exec5x"}};
    for (const auto &pair : known) {
        const auto &id = pair.first;
        const auto &name = pair.second;
        CAPTURE(id);
        CHECK(called(id, names).first == name);
    }
    CHECK(called("call_abc123", names).first == "call_abc123");
    CHECK(called("functions.hack:0", names).first == "hack");
    CHECK(called("functions.f:0").first == "f");
    CHECK(called("a.b.f:0").first == "f");
    CHECK(called(":").first == "");
    CHECK(tool_names(parse_json(
              R"([{"type":"function","function":{"name":"f"}},{"type":"x"},3,
                  {"function":{"name":7}},{"function":{"name":"g"}}])",
              "tools")) == Names{"f", "g"});
}

TEST_CASE("output parser: ids are unique in a reply, and go on from the conversation's calls") {
    CHECK(called("functions.f:7").second == "functions.f:7");
    CHECK(called("f:7").second == "functions.f:0");
    const auto ids = [](std::initializer_list<const char *> written_ids, std::uint64_t before) {
        std::string text;
        for (const char *id : written_ids)
            text += cat("<|tool_call_begin|>", id, "<|tool_call_end|>");
        std::string all;
        for (const OutputEvent &event : parsed({written(text), {.n_calls = before}}))
            if (event.kind == Kind::call_begin) all += event.id + " ";
        return all;
    };
    CHECK(ids({"functions.f:0", "functions.f:0", "functions.g:0", "f", "functions.f:3"}, 0) ==
          "functions.f:0 functions.f:1 functions.g:0 functions.f:3 functions.f:4 ");
    CHECK(ids({"f", "functions.f:3", "f"}, 3) == "functions.f:3 functions.f:4 functions.f:5 ");
    CHECK(ids({"functions.f:99999999999999999999999"}, 0) ==
          "functions.f:99999999999999999999999 ");
}

TEST_CASE("output parser: the start follows the prompt's tokens") {
    const auto start = [](std::string_view prompt) {
        return output_start(test::k26(), written(prompt));
    };
    CHECK(start("<|im_assistant|>assistant<|im_middle|><think>").reasoning);
    CHECK(start("<|im_assistant|>assistant<|im_middle|><think>Well, ").reasoning);
    CHECK_FALSE(start("<|im_assistant|>assistant<|im_middle|><think></think>").reasoning);
    CHECK_FALSE(start("<think>thought<|im_end|>").reasoning);
    CHECK_FALSE(start("plain").reasoning);
    CHECK_FALSE(start("").reasoning);
    CHECK(start(cat(kCall, kCall, "<|im_end|><think>")).n_calls == 2);
    const Json &goldens = test::goldens();
    for (const Json &chat : goldens.find("chat")->items) {
        const std::string &text = chat.find("text")->text;
        CHECK(output_start(test::k26(), test::ids_of(*chat.find("ids"))).reasoning ==
              text.ends_with("<think>"));
    }
}

TEST_CASE("output parser: nano-k2's replies") {
    std::size_t n_calls = 0;
    for (const Json &golden : test::read_json(test::data("nano-k2/generate.json")).items) {
        CAPTURE(golden.find("name")->text);
        const Tokens prompt = test::ids_of(*golden.find("prompt"));
        const Case c{
            test::ids_of(*golden.find("tokens")), output_start(nano(), prompt), {}, &nano()};
        CHECK(c.start.reasoning == golden.find("text")->text.ends_with("<think>"));
        const Events events = parsed(c);
        CHECK(events == naive_events(c));
        for (const OutputEvent &event : events) n_calls += event.kind == Kind::call_end;
    }
    CHECK(n_calls > 0);
}

TEST_CASE("output parser: random replies are parsed as by a naive parser of the whole text") {
    const std::string_view parts[] = {"<|tool_calls_section_begin|>",
                                      "<|tool_calls_section_end|>",
                                      "<|tool_call_begin|>",
                                      "<|tool_call_argument_begin|>",
                                      "<|tool_call_end|>",
                                      "</think>",
                                      "<think>",
                                      "<|tool_call_section_begin|>",
                                      "<|tool_call_section_end|>",
                                      "<|tool_call_sec",
                                      "<|im_middle|>",
                                      " ",
                                      "\n",
                                      "Hello, 世界 😀!",
                                      "{\"a\": 1}",
                                      "<"};
    test::Random random(7);
    for (int round = 0; round < 2000; ++round) {
        Case c;
        c.start.reasoning = test::below(random, 2) == 0;
        const std::size_t n = test::below(random, 16);
        for (std::size_t i = 0; i < n; ++i) {
            const std::string_view part = parts[test::below(random, std::size(parts))];
            std::string text(part);
            // Calls get an id, most of them a good end too.
            if (part == "<|tool_call_begin|>") {
                text += cat("functions.f", i, ":", i);
                if (test::below(random, 4) > 0)
                    text += "<|tool_call_argument_begin|>{\"é\": 1}<|tool_call_end|>";
            }
            const bool spell = part.starts_with("<|tool_call_s") && test::below(random, 2) == 0;
            const Tokens tokens = spell ? bytes_of(text) : written(text);
            c.tokens.insert(c.tokens.end(), tokens.begin(), tokens.end());
        }
        const Tokens stop = written("<|im_end|>");
        c.tokens.insert(c.tokens.end(), stop.begin(), stop.end());
        const std::string text = test::k26().decode(c.tokens);
        // The naive parser does not know that an id may be followed by junk.
        static const auto junk_in_id = [](const Events &events) {
            return std::any_of(events.begin(), events.end(), [](const OutputEvent &e) {
                return e.kind == Kind::call_begin &&
                       e.id.find_last_not_of("0123456789") != e.id.rfind(':');
            });
        };
        const Events expected = naive_events(c);
        if (junk_in_id(expected)) continue;
        CAPTURE(text);
        CHECK(parsed(c) == expected);
    }
}

TEST_CASE("output parser: any tokens at all") {
    test::Random random(3);
    for (int round = 0; round < 300; ++round) {
        Case c;
        c.start.reasoning = test::below(random, 2) == 0;
        const auto vocab = static_cast<std::size_t>(test::k26().vocab_size());
        for (int i = 0; i < 60; ++i)
            c.tokens.push_back(static_cast<std::int32_t>(test::below(random, 2) == 0
                                                             ? vocab - 256 + test::below(random, 30)
                                                             : test::below(random, vocab + 2)));
        parsed(c);
    }
    const Case outside{{-1, INT32_MIN, INT32_MAX, test::k26().vocab_size()}};
    CHECK(parsed(outside).empty());
}
