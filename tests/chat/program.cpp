#include "chat/program.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace chat {
namespace {

// A loaded machine or a sanitizer makes everything slow; only a hung program takes this long.
constexpr int kPatienceMs = 60'000;

using File = std::unique_ptr<FILE, int (*)(FILE *)>;

File temporary() {
    File file(std::tmpfile(), std::fclose);
    REQUIRE(file != nullptr);
    return file;
}

std::string contents(FILE *file) {
    std::string text;
    std::rewind(file);
    for (int c; (c = std::fgetc(file)) != EOF;) text.push_back(static_cast<char>(c));
    return text;
}

[[noreturn]] void execute(const Arguments &program) {
    std::vector<char *> argv;
    for (const std::string &argument : program)
        argv.push_back(const_cast<char *>(argument.c_str()));
    argv.push_back(nullptr);
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], argv.data());
    _exit(127);
}

int wait_for(pid_t pid) {
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result run_with(int in, int out, const Arguments &program) {
    const File err = temporary();
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        dup2(in, 0);
        if (out >= 0) dup2(out, 1);
        if (out < 0) close(1);
        dup2(fileno(err.get()), 2);
        execute(program);
    }
    const int status = wait_for(pid);
    return {status, "", contents(err.get())};
}

}  // namespace

Result run(const Arguments &program, const std::string &in) {
    const File input = temporary(), output = temporary();
    std::fwrite(in.data(), 1, in.size(), input.get());
    std::rewind(input.get());
    Result result = run_with(fileno(input.get()), fileno(output.get()), program);
    result.out = contents(output.get());
    return result;
}

Result run_into(int out, const Arguments &program) {
    return run_with(open("/dev/null", O_RDONLY | O_CLOEXEC), out, program);
}

Arguments kimi_chat(const Arguments &options) {
    Arguments program = {KIMI_CHAT, "--deployment", KIMI_MODELS "/nano-k2/deployment.json"};
    program.insert(program.end(), options.begin(), options.end());
    return program;
}

Terminal::Terminal(const Arguments &program, const Arguments &environment) {
    winsize size = {50, 500, 0, 0};  // so wide that line editing never wraps
    pid_ = forkpty(&fd_, nullptr, nullptr, &size);
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    for (const std::string &variable : environment) putenv(const_cast<char *>(variable.c_str()));
    execute(program);
}

Terminal::~Terminal() {
    close(fd_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
}

void Terminal::type(std::string_view keys) const {
    REQUIRE(write(fd_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
}

// False at the end of the output: on a terminal, an error.
bool Terminal::read_some() {
    pollfd ready = {fd_, POLLIN, 0};
    char bytes[4096];
    if (poll(&ready, 1, kPatienceMs) != 1) FAIL("nothing came after: ", unread_);
    const ssize_t n = read(fd_, bytes, sizeof bytes);
    if (n > 0) unread_.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
}

std::string Terminal::expect(std::string_view text) {
    std::size_t at;
    while ((at = unread_.find(text)) == std::string::npos)
        if (!read_some()) FAIL("the program ended before it printed '", text, "': ", unread_);
    std::string seen = unread_.substr(0, at + text.size());
    unread_.erase(0, seen.size());
    return seen;
}

Result Terminal::finish() {
    while (read_some()) {
    }
    const pid_t pid = pid_;
    pid_ = 0;
    return {wait_for(pid), unread_, ""};
}

}  // namespace chat
