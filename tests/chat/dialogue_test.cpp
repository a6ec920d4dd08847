// Several turns, from a pipe: what is sent, what is remembered, what is a command.
#include "chat/api.h"
#include "chat/program.h"
#include "check.h"

using chat::kimi_chat;
using chat::message;
using chat::Result;
using kimi::test::contains;
using nlohmann::json;

namespace {

Result talk(const std::string &lines, chat::Arguments options = {"--temperature", "0"}) {
    return chat::run(kimi_chat(options), lines);
}

// The seeds of the replies, in order, as --stats prints them.
std::vector<std::uint64_t> seeds_of(const Result &result) {
    std::vector<std::uint64_t> seeds;
    std::istringstream lines(result.err);
    for (std::string line; std::getline(lines, line);) seeds.push_back(json::parse(line)["seed"]);
    return seeds;
}

}  // namespace

TEST_CASE("dialogue: each reply sees the turns before it") {
    const client::Engine engine = client::load();
    const char *const first = "My name is Mia.", *const second = "What is my name?";
    json request = {{"messages", {message("user", first)}}};
    const std::string reply1 = chat::api_reply(engine.get(), request).answer;
    request["messages"].push_back(message("assistant", reply1));
    request["messages"].push_back(message("user", second));
    const std::string reply2 = chat::api_reply(engine.get(), request).answer;

    const Result result = talk(std::string(first) + "\n" + second + "\n");
    CHECK(result.status == 0);
    CHECK(result.out == reply1 + "\n" + reply2 + "\n");
    CHECK(result.err.empty());
}

TEST_CASE("dialogue: /reset forgets the turns, /retry replies again, the system message stays") {
    const chat::Arguments options = {"--temperature", "0", "--system", "Answer briefly."};
    const std::string hello = talk("Hello!\n", options).out,
                      who = talk("Who are you?\n", options).out;
    REQUIRE(hello != who);
    CHECK(talk("Hello!\n/reset\nWho are you?\n", options).out == hello + who);
    CHECK(talk("Hello!\n/retry\n/retry\n", options).out == hello + hello + hello);
    const std::string two = talk("Hello!\nWho are you?\n", options).out;
    CHECK(talk("Hello!\nWho are you?\n/retry\n", options).out == two + two.substr(hello.size()));
}

TEST_CASE("dialogue: /think and /instant change the mode from the next reply on") {
    const client::Engine engine = client::load();
    const auto n_prompt = [&](bool thinking) {
        return chat::api_reply(engine.get(),
                               {{"messages", {message("user", "Hello!")}}, {"thinking", thinking}})
            .prompt_tokens;
    };
    const Result result =
        talk("/instant\nHello!\n/reset\n/think\nHello!\n", {"--temperature", "0", "--stats"});
    std::istringstream lines(result.err);
    std::string line;
    std::getline(lines, line);
    CHECK(json::parse(line)["prompt_tokens"] == n_prompt(false));
    std::getline(lines, line);
    CHECK(json::parse(line)["prompt_tokens"] == n_prompt(true));
}

TEST_CASE("dialogue: an unknown slash word is an error and is not sent") {
    for (const std::string line : {"/foo", "/", "/RESET", "/reset now", "/etc/passwd"}) {
        CAPTURE(line);
        const Result result = talk(line + "\n");
        CHECK(result.status == 0);
        CHECK(result.out.empty());
        CHECK(contains(result.err, line));
        CHECK(contains(result.err, "/help"));
    }
    CHECK(!talk(" /foo\n").out.empty());
}

TEST_CASE("dialogue: commands print on stderr, and say so where they have nothing to do") {
    const Result help = talk("/help\n");
    for (const char *name : {"/help", "/reset", "/retry", "/think", "/instant", "/stats", "/exit"})
        CHECK(contains(help.err, name));
    CHECK(help.out.empty());
    CHECK(contains(talk("/retry\n").err, "no reply"));
    CHECK(contains(talk("/stats\n").err, "no reply"));
    const Result stats = talk("Hello!\n/stats\n", {"--seed", "5"});
    CHECK(contains(stats.err, "seed     5\n"));
    CHECK(talk("/exit\nHello!\n").out.empty());
}

TEST_CASE("dialogue: blank lines are not sent, and a backslash joins lines") {
    CHECK(talk("\n \n\t\n").out.empty());
    const client::Engine engine = client::load();
    const json request = {{"messages", {message("user", "Hello!\nWho are you?")}}};
    const std::string expected = chat::api_reply(engine.get(), request).answer + "\n";
    CHECK(talk("Hello!\\\nWho are you?\n").out == expected);
    CHECK(talk("Hello!\\\nWho are you?").out == expected);
}

TEST_CASE("dialogue: a line that is not UTF-8 is an error, and the next one works") {
    const Result result = talk("a\xff\nHello!\n");
    CHECK(contains(result.err, "UTF-8 at byte 1"));
    CHECK(result.out == talk("Hello!\n").out);
    CHECK(talk(std::string("Hello!\0x\n", 9)).status == 0);
}

TEST_CASE("dialogue: reply i has seed S + i, and without --seed each has its own") {
    const std::string lines = "Hello!\n/retry\nWho are you?\n";
    CHECK(seeds_of(talk(lines, {"--stats", "--seed", "40"})) ==
          std::vector<std::uint64_t>{40, 41, 42});
    const auto seeds = seeds_of(talk(lines, {"--stats"}));
    REQUIRE(seeds.size() == 3);
    CHECK(seeds[0] != seeds[1]);
    CHECK(seeds[1] != seeds[2]);
}

TEST_CASE("dialogue: a message that got no reply is forgotten") {
    const kimi::test::TempDir dir;
    const std::string small = dir.write(
        "small.json", "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\", \"context_limit\": 40}");
    const chat::Arguments program = {KIMI_CHAT, "--deployment", small, "--temperature",
                                     "0",       "--instant"};
    const Result result = chat::run(program, std::string(400, 'x') + "\nHello!\n");
    CHECK(contains(result.err, "40"));
    CHECK(result.out == chat::run(program, "Hello!\n").out);
}
