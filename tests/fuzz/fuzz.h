// What the fuzz targets share. A target fails by a crash, a sanitizer's report, or broken().
#pragma once

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tiny_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace kimi::fuzz {

// Ends the run: the library broke a promise.
[[noreturn]] inline void broken(std::string_view what) {
    std::fprintf(stderr, "broken: %.*s\n", static_cast<int>(what.size()), what.data());
    abort();
}

inline void expect(bool condition, const char *what) {
    if (!condition) broken(what);
}

// Runs f, which may refuse its input with an error, but not for a bug of the library. False where
// it did.
template <typename F>
bool accepts(F &&f) {
    try {
        f();
        return true;
    } catch (const Error &error) {
        if (error.status == KIMI_INTERNAL) broken(error.text);
        return false;
    }
}

// A file in memory.
class InputFile {
  public:
    InputFile() : fd_(memfd_create("input", MFD_CLOEXEC)) {}
    std::string path() const { return cat("/proc/self/fd/", fd_); }
    void write(std::string_view bytes) const {
        expect(ftruncate(fd_, 0) == 0 &&
                   pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
               "the input cannot be written");
    }

  private:
    int fd_;
};

// A folder that the target fills once. It is left behind when the fuzzer ends the process.
inline std::string make_folder() {
    std::string folder = "/tmp/kimi-fuzz-XXXXXX";
    expect(mkdtemp(folder.data()) != nullptr, "no folder");
    return folder;
}

// A folder with a tiny model; made once.
inline const std::string &tiny_model() {
    static const std::string folder = [] {
        std::string made = make_folder();
        test::write_tiny_model(made);
        return made;
    }();
    return folder;
}

// Takes an input apart from its front.
class Bytes {
  public:
    Bytes(const std::uint8_t *data, std::size_t size)
        : rest_(reinterpret_cast<const char *>(data), size) {}

    bool empty() const { return rest_.empty(); }
    // 0 at the end.
    std::uint8_t byte() {
        if (rest_.empty()) return 0;
        const auto value = static_cast<std::uint8_t>(rest_[0]);
        rest_.remove_prefix(1);
        return value;
    }
    std::string_view take(std::size_t n) {
        const std::string_view part = rest_.substr(0, n);
        rest_.remove_prefix(part.size());
        return part;
    }
    std::string_view rest() { return take(rest_.size()); }

  private:
    std::string_view rest_;
};

}  // namespace kimi::fuzz
