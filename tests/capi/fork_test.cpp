// A child of fork(), which has the handles and none of the threads.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "capi/client.h"
#include "capi/fixtures.h"
#include "capi/goldens.h"

namespace {

// Ends a child without the leak check of a sanitizer: memory that only the missing threads knew is
// nobody's there.
void end_quietly() {
    kimi::test::kInstrumented ? _exit(7) : std::exit(7);
}

// The exit status of a child that does this; -1 where it had to be killed.
int status_of_child(const std::function<void()> &act) {
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        act();
        _exit(99);
    }
    int status = 0;
    for (int i = 0; i < 600 && waitpid(child, &status, WNOHANG) == 0; ++i) {
        if (i == 599) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("lifetime: a child of fork() may exit and exec, and its parent goes on") {
    const auto golden = kimi::test::golden_replies()[0];
    const client::Engine engine = client::load();
    const client::Session session = client::open(engine.get());
    client::append(session.get(), golden.prompt);
    kimi_step step;
    kimi_step_init(&step);
    std::vector<int32_t> tokens;
    const auto forked_in_step = [&](const std::function<void()> &act) {
        int32_t ready = 0;
        REQUIRE(kimi_session_submit(session.get(), nullptr) == KIMI_OK);
        const int status = status_of_child(act);
        while (ready == 0)
            REQUIRE(kimi_session_poll(session.get(), &step, &ready, nullptr) == KIMI_OK);
        tokens.insert(tokens.end(), step.tokens, step.tokens + step.n_tokens);
        return status;
    };
    CHECK(forked_in_step([] { _exit(5); }) == 5);
    CHECK(forked_in_step(end_quietly) == 7);
    CHECK(forked_in_step([] { execl("/bin/sh", "sh", "-c", "exit 9", nullptr); }) == 9);
    const client::Reply rest = client::finish(session.get());
    tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.end());
    CHECK(tokens == golden.tokens);
}
