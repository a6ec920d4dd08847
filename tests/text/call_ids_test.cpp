#include "text/call_ids.h"

#include "check.h"

using namespace kimi;

namespace {

using Ids = std::vector<std::string>;

Message calls(std::initializer_list<std::pair<const char *, const char *>> id_and_name) {
    Message message;
    message.role = "assistant";
    for (const auto &[id, name] : id_and_name) message.tool_calls.push_back({id, name, "{}"});
    return message;
}
Message result(std::string id) {
    Message message;
    message.role = "tool";
    message.tool_call_id = std::move(id);
    return message;
}

// All ids after rewriting: of calls and, in brackets, of results.
Ids canonical(std::vector<Message> messages) {
    Chat chat;
    chat.messages = std::move(messages);
    canonicalize_call_ids(chat);
    Ids ids;
    for (const Message &message : chat.messages) {
        for (const ToolCall &call : message.tool_calls) ids.push_back(call.id);
        if (message.role == "tool") ids.push_back("[" + message.tool_call_id + "]");
    }
    return ids;
}

}  // namespace

TEST_CASE("call ids: foreign ids are rewritten together with their results") {
    CHECK(canonical({calls({{"call_a", "f"}, {"call_b", "g"}}), result("call_b"), result("call_a"),
                     calls({{"f1", "f"}}), result("f1")}) ==
          Ids{"functions.f:0", "functions.g:1", "[functions.g:1]", "[functions.f:0]",
              "functions.f:2", "[functions.f:2]"});
    for (const char *id :
         {"get_weather:0", "functions.f", "functions.f:", "functions.f:x", "functions.f:-1",
          "functions.:1", "functionsf0", "functions_f_0", "", "functions.g:7", "functions.f:1 "})
        CHECK(canonical({calls({{id, "f"}})}) == Ids{"functions.f:0"});
}

TEST_CASE("call ids: canonical ids stay, repeated or not") {
    CHECK(canonical({calls({{"functions.f:3", "f"}, {"functions.a.b:c:4", "a.b:c"}}),
                     result("functions.f:3"), calls({{"functions.f:3", "f"}}),
                     result("functions.f:3"),
                     calls({{"functions.f:99999999999999999999999", "f"}})}) ==
          Ids{"functions.f:3", "functions.a.b:c:4", "[functions.f:3]", "functions.f:3",
              "[functions.f:3]", "functions.f:99999999999999999999999"});
    CHECK(canonical({calls({{"functions.f:1", ""}})}) == Ids{"functions.f:1"});
}

TEST_CASE("call ids: new numbers avoid those in use before and in the same message") {
    CHECK(canonical({calls({{"x", "f"}, {"functions.f:0", "f"}, {"functions.g:1", "g"}})}) ==
          Ids{"functions.f:2", "functions.f:0", "functions.g:1"});
    CHECK(canonical({calls({{"functions.f:1", "f"}}), calls({{"x", "f"}}), calls({{"y", "g"}})}) ==
          Ids{"functions.f:1", "functions.f:2", "functions.g:3"});
    // What comes later changes nothing: the rendered history keeps its prefix.
    CHECK(canonical({calls({{"x", "f"}}), calls({{"functions.f:0", "f"}})}) ==
          Ids{"functions.f:0", "functions.f:0"});
}

TEST_CASE("call ids: a repeated id belongs to the last message that has it, in order") {
    CHECK(canonical({calls({{"c", "f"}}), result("c"), calls({{"c", "g"}}), result("c")}) ==
          Ids{"functions.f:0", "[functions.f:0]", "functions.g:1", "[functions.g:1]"});
    CHECK(canonical({calls({{"c", "f"}}), calls({{"c", "g"}}), result("c")}) ==
          Ids{"functions.f:0", "functions.g:1", "[functions.g:1]"});
    CHECK(canonical({calls({{"", "f"}, {"", "g"}}), result(""), result(""), result("")}) ==
          Ids{"functions.f:0", "functions.g:1", "[functions.f:0]", "[functions.g:1]",
              "[functions.g:1]"});
}

TEST_CASE("call ids: results without a call stay as they are") {
    CHECK(canonical({result("lost"), calls({{"c", "f"}}), result("d"), result("c")}) ==
          Ids{"[lost]", "functions.f:0", "[d]", "[functions.f:0]"});
}

TEST_CASE("call ids: a foreign id of a call without a name is refused") {
    const Error error = test::error_of([] {
        canonical({result("x"), calls({{"functions.f:0", ""}, {"c", ""}})});
    });
    CHECK(error.status == KIMI_INVALID_ARGUMENT);
    CHECK(error.text ==
          "messages[1].tool_calls[1].function.name: expected a string, found nothing");
}
