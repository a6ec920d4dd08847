// Runs kimi-chat as a user does: as a process, with pipes or on a terminal.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace chat {

using Arguments = std::vector<std::string>;

// A process's end: its exit status, or 128 + the signal that ended it.
struct Result {
    int status;
    std::string out, err;
};

// Runs a program (an absolute path, or a name to be found in PATH) to its end.
Result run(const Arguments &program, const std::string &in = "");
// The same with stdout at the given file descriptor; out stays empty. -1: stdout is closed.
Result run_into(int out, const Arguments &program);

// kimi-chat with the bundled model.
Arguments kimi_chat(const Arguments &options);

// A program on a terminal of its own, killed at the end of the scope.
class Terminal {
  public:
    // environment: NAME=VALUE strings on top of our own.
    explicit Terminal(const Arguments &program, const Arguments &environment = {});
    Terminal(const Terminal &) = delete;
    Terminal &operator=(const Terminal &) = delete;
    ~Terminal();

    void type(std::string_view keys) const;
    // Waits until the program has printed text, and returns what it has printed since the last
    // call, text included. Fails the test where it does not come.
    std::string expect(std::string_view text);
    // What is printed until the end, and the exit status.
    Result finish();

  private:
    bool read_some();

    pid_t pid_;
    int fd_;
    std::string unread_;
};

inline constexpr char kCtrlC[] = "\x03", kCtrlD[] = "\x04", kUp[] = "\x1b[A";

}  // namespace chat
