// Fixtures for tests of bad input: silence, and errors that name the culprit.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <iostream>

#include "capi/client.h"
#include "check.h"

namespace bad_input {

using kimi::test::contains;
using kimi::test::TempDir;

// Standard output and error of a test go to a file, which must stay empty.
class Silence {
  public:
    Silence() {
        flush();
        const int file = open(path_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
        for (int fd : {1, 2}) {
            saved_[fd] = dup(fd);
            dup2(file, fd);
        }
        close(file);
    }
    ~Silence() {
        flush();
        for (int fd : {1, 2}) {
            dup2(saved_[fd], fd);
            close(saved_[fd]);
        }
        const std::string written = kimi::read_file(path_, 1 << 30);
        CAPTURE(written);  // also what doctest wrote about failures
        CHECK(written.empty());
    }

  private:
    static void flush() {
        std::cout.flush();
        std::fflush(nullptr);
    }

    TempDir dir_;
    std::string path_ = dir_.file("output");
    int saved_[3];
};

// The call fails with this status and a text that contains `text`, and needs no error record.
inline void expect(kimi_status status, const std::string &text,
                   const std::function<kimi_status(kimi_error *)> &call) {
    client::ErrorRecord error;
    CAPTURE(text);
    CHECK(call(&error) == status);
    CHECK(error.status == status);
    CAPTURE(error.message);
    CHECK(contains(error.message, text));
    CHECK(call(nullptr) == status);
}

inline kimi_status create(const std::string &deployment, kimi_error *error) {
    kimi_engine_options options;
    kimi_engine_options_init(&options);
    options.deployment = deployment.c_str();
    kimi_engine *engine = reinterpret_cast<kimi_engine *>(1);
    const kimi_status status = kimi_engine_create(&options, &engine, error);
    CHECK(engine == nullptr);
    return status;
}

// A loaded nano-k2 and a session.
struct Nano : Silence {
    client::Engine engine = client::load();
    client::Session held = client::open(engine.get());
    kimi_session *session = held.get();
    const kimi_tokenizer *tokenizer = kimi_engine_tokenizer(engine.get());
    kimi_step step;
    Nano() { kimi_step_init(&step); }
};

}  // namespace bad_input
