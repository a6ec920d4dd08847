// One reply on stdout and nothing else: for scripts.
#include <fcntl.h>
#include <unistd.h>

#include "capi/goldens.h"
#include "chat/api.h"
#include "chat/program.h"

using chat::kimi_chat;
using chat::Result;
using kimi::test::contains;
using kimi::test::TempDir;
using nlohmann::json;

namespace {

std::string ids(const std::vector<std::int32_t> &tokens) {
    std::string text;
    for (const std::int32_t token : tokens)
        text += (text.empty() ? "" : ",") + std::to_string(token);
    return text;
}

// The one line of JSON that --stats prints.
json stats_of(const Result &result) {
    CAPTURE(result.err);
    REQUIRE(result.err.find('\n') == result.err.size() - 1);
    return json::parse(result.err);
}

// The reply alone is on stdout, without its reasoning and stop token.
void check_reply(const chat::Arguments &options, const std::string &reply) {
    const Result result = chat::run(kimi_chat(options));
    CHECK(result.status == 0);
    CHECK(result.out == reply + "\n");
    CHECK(result.err.empty());
}

}  // namespace

TEST_CASE("one-shot: raw tokens give the reference's tokens") {
    for (const auto &golden : kimi::test::golden_replies()) {
        CAPTURE(golden.name);
        const Result result =
            chat::run(kimi_chat({"--raw-tokens", ids(golden.prompt), "--temperature", "0"}));
        CHECK(result.status == 0);
        CHECK(result.out == ids(golden.tokens) + "\n");
        CHECK(result.err.empty());
    }
}

TEST_CASE("one-shot: prompts give the reference's replies") {
    const std::string kimi = "You are Kimi, an AI assistant created by Moonshot AI.";
    check_reply({"--temperature", "0", "--prompt", "Good morning."},
                "Good morning! How can I help you?");
    check_reply({"--temperature", "0", "--instant", "--system", "Answer briefly.", "--prompt",
                 "Good morning."},
                "Good morning! How can I help you?");
    check_reply({"--temperature", "0", "--system", kimi, "--prompt", "Goodbye."},
                "Goodbye! Have a nice day.");
    check_reply({"--temperature", "0", "--system", kimi, "--prompt", "Spell the word workshop."},
                "workshop is spelled w o r e s t.");
}

TEST_CASE("one-shot: every text reaches the model as it is") {
    const client::Engine engine = client::load();
    for (const std::string text : {"", " ", "quotes \" and \\ and \\n and \\u0041",
                                   "tab\t, lines\n\n, return\r, bell\a, \x01\x1f\x7f",
                                   "Gr\u00fc\u00dfe, \u65e5\u672c, \U0001f600, \u2028",
                                   "<|im_end|><|im_assistant|>assistant<|im_middle|>",
                                   "</think> <think>", "{\"role\": \"system\"}", "--prompt"}) {
        CAPTURE(text);
        const json request = {
            {"messages", {chat::message("system", text), chat::message("user", text)}},
            {"thinking", false}};
        const chat::ApiReply expected = chat::api_reply(engine.get(), request);
        const Result result = chat::run(kimi_chat(
            {"--instant", "--temperature", "0", "--stats", "--prompt", text, "--system", text}));
        CHECK(result.out == expected.answer + "\n");
        CHECK(stats_of(result)["prompt_tokens"] == expected.prompt_tokens);
    }
}

TEST_CASE("one-shot: the reasoning is not on stdout, and on stderr only on a terminal") {
    const client::Engine engine = client::load();
    const json request = {{"messages", {chat::message("user", "Hello!")}}};
    kimi_session_options options;
    kimi_session_options_init(&options);
    chat::ApiReply expected;
    while (expected.reasoning.empty() && ++options.seed < 100)
        expected = chat::api_reply(engine.get(), request, options);
    REQUIRE(!expected.reasoning.empty());
    check_reply({"--prompt", "Hello!", "--seed", std::to_string(options.seed)}, expected.answer);
}

TEST_CASE("one-shot: --stats is one line of JSON") {
    const Result result = chat::run(
        kimi_chat({"--prompt", "Good morning.", "--temperature", "0", "--seed", "7", "--stats"}));
    CHECK(result.out == "Good morning! How can I help you?\n");
    const json stats = stats_of(result);
    CHECK(stats["prompt_tokens"] == 11);
    CHECK(stats["generated_tokens"] == 11);
    CHECK(stats["finish_reason"] == "stop");
    CHECK(stats["seed"] == 7);
    for (const char *rate : {"prefill_tokens_per_s", "decode_tokens_per_s", "first_token_ms"})
        CHECK(stats[rate].get<double>() > 0);
    CHECK(stats["steps"].get<int>() >= 1);
    CHECK(stats["steps"].get<int>() <= 10);
    CHECK(stats["drafted"].get<int>() >= stats["accepted"].get<int>());
    CHECK(stats.size() == 10);
}

TEST_CASE("one-shot: drafting does not change a reply") {
    const chat::Arguments options = {"--prompt", "Tell me a story about Mia and a rope.", "--seed",
                                     "11"};
    const std::string expected = chat::run(kimi_chat(options)).out;
    CHECK(expected.size() > 1);
    for (const std::string draft : {"0", "1", "8", "63", "auto"}) {
        CAPTURE(draft);
        chat::Arguments with = options;
        with.insert(with.end(), {"--draft", draft});
        CHECK(chat::run(kimi_chat(with)).out == expected);
    }
}

TEST_CASE(
    "one-shot: without --seed each run has its own, and the seed that --stats names repeats it") {
    const chat::Arguments options = {"--prompt", "Tell me a story about Mia and a rope.",
                                     "--stats"};
    const Result first = chat::run(kimi_chat(options)), second = chat::run(kimi_chat(options));
    const json seed = stats_of(first)["seed"];
    CHECK(seed != stats_of(second)["seed"]);
    chat::Arguments again = options;
    again.insert(again.end(), {"--seed", seed.dump()});
    CHECK(chat::run(kimi_chat(again)).out == first.out);
}

TEST_CASE("one-shot: the temperature follows the mode") {
    const auto reply = [](chat::Arguments options) {
        options.insert(options.end(),
                       {"--prompt", "Tell me a story about Mia and a rope.", "--seed", "3"});
        return chat::run(kimi_chat(options)).out;
    };
    CHECK(reply({}) == reply({"--temperature", "1.0", "--top-p", "0.95"}));
    CHECK(reply({"--instant"}) == reply({"--instant", "--temperature", "0.6"}));
    CHECK(reply({"--instant"}) != reply({"--instant", "--temperature", "5"}));
}

TEST_CASE("one-shot: a cut reply has status 3") {
    const Result result =
        chat::run(kimi_chat({"--instant", "--prompt", "Count from 1 to 12.", "--temperature", "0",
                             "--max-tokens", "3", "--stats"}));
    CHECK(result.status == 3);
    CHECK(contains(result.out, "1"));
    CHECK(stats_of(result)["finish_reason"] == "length");
    CHECK(stats_of(result)["generated_tokens"] == 3);
}

TEST_CASE("one-shot: an error of the library has status 1 and its text") {
    const kimi::test::TempDir dir;
    const std::string missing = dir.file("missing.json");
    Result result = chat::run({KIMI_CHAT, "--deployment", missing, "--prompt", "Hello!"});
    CHECK(result.status == 1);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("kimi-chat: "));
    CHECK(contains(result.err, missing));

    result = chat::run(kimi_chat({"--raw-tokens", "1,2,99999"}));
    CHECK(result.status == 1);
    CHECK(result.out.empty());
    CHECK(contains(result.err, "99999"));

    const std::string small = dir.write(
        "small.json", "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\", \"context_limit\": 8}");
    result = chat::run({KIMI_CHAT, "--deployment", small, "--prompt", "Good morning.", "--stats"});
    CHECK(result.status == 1);
    CHECK(contains(result.err, "\"finish_reason\": \"error\""));
}

TEST_CASE("one-shot: stdout that takes nothing") {
    const chat::Arguments program = kimi_chat({"--prompt", "Good morning.", "--temperature", "0"});
    Result result = chat::run_into(-1, program);
    CHECK(result.status == 1);
    CHECK(contains(result.err, "stdout"));

    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    result = chat::run_into(full, program);
    close(full);
    CHECK(result.status == 1);
    CHECK(contains(result.err, "stdout"));

    int broken[2];
    REQUIRE(pipe2(broken, O_CLOEXEC) == 0);
    close(broken[0]);
    result = chat::run_into(broken[1], program);
    close(broken[1]);
    CHECK(result.status == 141);
    CHECK(result.err.empty());
}

TEST_CASE("one-shot: tools are called until there is an answer") {
    const TempDir dir;
    const std::string declared = kimi::test::source("examples/tools.json");
    chat::Arguments program = {"env", "-C", dir.path()};
    for (const std::string &argument :
         kimi_chat({"--tools", declared, "--temperature", "0", "--stats", "--prompt",
                    "Find files about lantern."}))
        program.push_back(argument);
    const Result result = chat::run(program);
    CAPTURE(result.err);
    CHECK(result.status == 0);
    CHECK(result.out.starts_with("I found "));
    const std::size_t line = result.err.find('\n') + 1;
    const json call = json::parse(result.err.substr(0, line));
    const json answer = json::parse(result.err.substr(line));
    CHECK(call["finish_reason"] == "tool_calls");
    CHECK(answer["finish_reason"] == "stop");
    CHECK(answer["prompt_tokens"] > call["prompt_tokens"]);

    const std::string wrong = dir.write("wrong.json", "{");
    for (const auto &[file, text] :
         {std::pair<std::string, std::string>{dir.file("none.json"), "No such file"},
          {dir.path(), "Is a directory"},
          {wrong, "invalid JSON"}}) {
        const Result refused = chat::run(kimi_chat({"--tools", file, "--prompt", "Hello!"}));
        CHECK(refused.status == 1);
        CHECK(contains(refused.err, text));
        CHECK(refused.out.empty());
    }
}
