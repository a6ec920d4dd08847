// On a terminal: what is shown, and what Ctrl-C, Ctrl-D and the history do.
#include <sys/stat.h>

#include "chat/api.h"
#include "chat/program.h"
#include "check.h"

using chat::kimi_chat;
using chat::Result;
using chat::Terminal;
using kimi::test::contains;
using kimi::test::TempDir;

namespace {

constexpr char kPrompt[] = "\r\n> ", kDim[] = "\x1b[2m";

std::string state(const TempDir &dir) {
    return "XDG_STATE_HOME=" + dir.path();
}

// Options under which a reply is noise and takes thousands of tokens to meet a stop token.
const chat::Arguments kEndless = {"--instant", "--temperature", "10000", "--top-p",
                                  "1",         "--seed",        "4"};

// A seed of a reply to "Hello!" that begins with reasoning.
std::string seed_with_reasoning() {
    const client::Engine engine = client::load();
    kimi_session_options options;
    kimi_session_options_init(&options);
    const nlohmann::json request = {{"messages", {chat::message("user", "Hello!")}}};
    while (chat::api_reply(engine.get(), request, options).reasoning.empty())
        REQUIRE(++options.seed < 100);
    return std::to_string(options.seed);
}

}  // namespace

TEST_CASE("terminal: the reasoning is dimmed, the reply is not") {
    const std::string seed = seed_with_reasoning();
    const std::string reply = chat::run(kimi_chat({"--prompt", "Hello!", "--seed", seed})).out;
    const std::string shown = "\r\n\r\n\x1b[0m" + reply.substr(0, reply.size() - 1) + "\r\n";

    const std::string out =
        Terminal(kimi_chat({"--prompt", "Hello!", "--seed", seed})).finish().out;
    CHECK(contains(out, kDim));
    CHECK(contains(out, shown));

    const TempDir dir;
    Terminal dialogue(kimi_chat({"--seed", seed}), {state(dir)});
    dialogue.expect("> ");
    dialogue.type("Hello!\r");
    CHECK(contains(dialogue.expect("\n> "), shown));
}

TEST_CASE("terminal: NO_COLOR shows the reasoning undimmed") {
    const std::string out =
        Terminal(kimi_chat({"--prompt", "Hello!", "--seed", seed_with_reasoning()}), {"NO_COLOR=1"})
            .finish()
            .out;
    CHECK(!contains(out, "\x1b"));
    CHECK(contains(out, "\r\n\r\n"));
}

TEST_CASE("terminal: a call is shown with its result") {
    const TempDir dir;
    for (const char *name : {"old-lantern.md", "lantern.txt", "rope.c"}) dir.write(name, "");
    chat::Arguments program = {"env", "-C", dir.path(), state(dir)};
    for (const std::string &argument :
         kimi_chat({"--tools", kimi::test::source("examples/tools.json"), "--temperature", "0"}))
        program.push_back(argument);
    Terminal dialogue(program);
    dialogue.expect("> ");
    dialogue.type("Find files about lantern.\r");
    const std::string call =
        R"([search_files {"word": "lantern"}: ["lantern.txt", "old-lantern.md"]])";
    for (int i = 0; i < 2; ++i) {
        dialogue.expect(call);
        CHECK(contains(dialogue.expect("\n> "), "I found "));
        dialogue.type("/retry\r");
    }
}

TEST_CASE("terminal: progress is shown while a long prompt is read") {
    const chat::Arguments program =
        kimi_chat({"--prompt", std::string(4000, '1'), "--max-tokens", "1", "--instant"});
    const std::string out = Terminal(program).finish().out;
    CHECK(contains(out, "loading: "));
    CHECK(contains(out, "reading the prompt: "));
    const Result piped = chat::run(program);
    CHECK(piped.err.empty());
    CHECK(!contains(piped.out, "reading"));
}

TEST_CASE("terminal: Ctrl-C ends a one-shot reply with status 130") {
    chat::Arguments options = kEndless;
    options.insert(options.end(), {"--raw-tokens", "300"});
    Terminal terminal(kimi_chat(options));
    terminal.expect(",");
    terminal.type(chat::kCtrlC);
    const Result result = terminal.finish();
    CHECK(result.status == 130);
    CHECK(result.out.ends_with("\r\n"));
}

TEST_CASE("terminal: Ctrl-C while a prompt is read ends it too") {
    const TempDir dir;
    const std::string slow = dir.write(
        "slow.json", "{\"checkpoint\": \"" KIMI_MODELS "/nano-k2\", \"prefill_chunk\": 1}");
    Terminal terminal({KIMI_CHAT, "--deployment", slow, "--prompt", std::string(100'000, '1')});
    terminal.expect("reading the prompt");
    terminal.type(chat::kCtrlC);
    CHECK(terminal.finish().status == 130);
}

TEST_CASE("terminal: Ctrl-C cancels the reply, the dialogue goes on, and a second one leaves") {
    const TempDir dir;
    Terminal terminal(kimi_chat(kEndless), {state(dir)});
    terminal.expect("> ");
    for (int i = 0; i < 2; ++i) {
        terminal.type("Hello!\r");
        terminal.expect("Hello!\r\n");
        terminal.expect(" ");  // the reply has begun
        terminal.type(chat::kCtrlC);
        terminal.expect("[cancelled]");
        terminal.expect(kPrompt);
    }
    terminal.type("/stats\r");
    terminal.expect("cancelled");
    terminal.expect(kPrompt);
    terminal.type(chat::kCtrlC);
    CHECK(terminal.finish().status == 0);
}

TEST_CASE("terminal: Ctrl-D leaves, and so does /exit") {
    for (const char *keys : {chat::kCtrlD, "/exit\r"}) {
        const TempDir dir;
        Terminal terminal(kimi_chat({}), {state(dir)});
        terminal.expect("> ");
        terminal.type(keys);
        CHECK(terminal.finish().status == 0);
    }
}

TEST_CASE("terminal: the history file keeps what was typed, for its owner alone") {
    const TempDir dir;
    const std::string path = dir.file("kimi-chat/history");
    {
        Terminal terminal(kimi_chat({"--temperature", "0"}), {state(dir)});
        terminal.expect("> ");
        terminal.type("Gr\u00fc\u00dfe!\r");
        terminal.expect(kPrompt);
        terminal.type("/instant\r");
        terminal.expect(kPrompt);
        terminal.type("\r");
        terminal.expect(kPrompt);
        terminal.type(chat::kCtrlD);
        CHECK(terminal.finish().status == 0);
    }
    CHECK(kimi::read_file(path, 1000) == "Gr\u00fc\u00dfe!\n/instant\n");
    struct stat file;
    REQUIRE(stat(path.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0600);
}

TEST_CASE("terminal: the history is under ~/.local/state by default, and its loss is told") {
    const TempDir dir;
    {
        Terminal terminal(kimi_chat({}),
                          {"XDG_STATE_HOME=relative/is/ignored", "HOME=" + dir.path()});
        terminal.expect("> ");
        terminal.type("/help\r");
        terminal.expect("/exit");
    }
    CHECK(kimi::read_file(dir.file(".local/state/kimi-chat/history"), 1000) == "/help\n");
    dir.write("file", "");
    Terminal terminal(kimi_chat({}), {"XDG_STATE_HOME=" + dir.file("file")});
    terminal.expect("> ");
    terminal.type("/help\r");
    terminal.expect(dir.file("file/kimi-chat/history"));
    terminal.expect("/exit");
}

TEST_CASE("terminal: lines are edited" * doctest::skip(!KIMI_CHAT_EDITS)) {
    const TempDir dir;
    dir.write("kimi-chat/history", "/instant\n/think\n");
    Terminal terminal(kimi_chat({}), {state(dir)});
    terminal.expect("> ");

    SUBCASE("Ctrl-C drops what was typed, also over several lines") {
        terminal.type("Hello!");
        terminal.expect("Hello!");
        terminal.type(chat::kCtrlC);
        terminal.expect(kPrompt);
        terminal.type("one\\\r");
        terminal.expect(". ");
        terminal.type(chat::kCtrlC);
        terminal.expect(kPrompt);
        terminal.type("/stats\r");
        terminal.expect("no reply yet");
        terminal.expect(kPrompt);
        terminal.type(chat::kCtrlC);
        CHECK(terminal.finish().status == 0);
    }
    SUBCASE("earlier lines come back") {
        terminal.type(chat::kUp);
        terminal.expect("/think");
        terminal.type(chat::kUp);
        terminal.expect("instant");
        terminal.type("\r");
        terminal.expect("without reasoning");
    }
    SUBCASE("whole characters are deleted, whatever the locale") {
        terminal.type(
            "/st\u00fc\x7f"
            "ats\r");
        terminal.expect("no reply yet");
    }
}
