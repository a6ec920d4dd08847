// Helpers that all tests share.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace kimi::test {

// Under a sanitizer: time and memory mean nothing then.
#ifdef KIMI_INSTRUMENTED
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif

inline std::string data(const std::string &name) {
    return KIMI_TEST_DATA "/" + name;
}
inline std::string source(const std::string &name) {
    return KIMI_SOURCE "/" + name;
}
inline std::string nano() {
    return KIMI_MODELS "/nano-k2";
}
inline Json read_json(const std::string &path) {
    return parse_json(read_file(path, std::size_t{1} << 30), path);
}

// A folder that is removed at the end of the scope.
class TempDir {
  public:
    TempDir() {
        std::string name = (std::filesystem::temp_directory_path() / "kimi-test-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    TempDir(const TempDir &) = delete;
    TempDir &operator=(const TempDir &) = delete;
    ~TempDir() { std::filesystem::remove_all(path_); }
    std::string path() const { return path_; }
    std::string file(const std::string &name) const { return path_ + "/" + name; }
    std::string write(const std::string &name, std::string_view text) const {
        const std::filesystem::path at(file(name));
        std::filesystem::create_directories(at.parent_path());
        std::ofstream(at, std::ios::binary)
            .write(text.data(), static_cast<std::streamsize>(text.size()));
        return at.string();
    }

  private:
    std::string path_;
};

// The error that f throws; fails the test if it throws none.
template <typename F>
Error error_of(F &&f) {
    try {
        f();
    } catch (const Error &error) {
        return error;
    }
    FAIL("no error was thrown");
    return {};
}

inline bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

// Compares arrays and reports the worst element.
inline void check_close(std::span<const float> got, std::span<const float> expected,
                        double tolerance) {
    REQUIRE(got.size() == expected.size());
    std::size_t worst = 0;
    double worst_error = -1;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double error = std::fabs(double{got[i]} - double{expected[i]});
        if (!(error <= worst_error)) worst = i, worst_error = error;
        if (std::isnan(error)) break;
    }
    if (got.empty()) return;
    INFO("worst at index ", worst, ": got ", got[worst], ", expected ", expected[worst], ", error ",
         worst_error, ", tolerance ", tolerance);
    CHECK(worst_error <= tolerance);
}

}  // namespace kimi::test
