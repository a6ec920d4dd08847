// Makes the program's requests to the system fail: memory, files, threads.
//
// The functions are replaced in the test's executable, so that the library under test finds these
// in place of the C and C++ runtimes' own. Requests fail only while a Fault exists, on all threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kimi::test {

enum class Resource {
    memory,  // operator new, malloc and anonymous mappings
    file,    // every call on a file but close and unlink
    thread,
};

class Fault {
  public:
    // The n-th request fails, counted from 1; with `on`, all after it do too.
    Fault(Resource resource, std::uint64_t n, bool on);
    ~Fault();
    Fault(const Fault &) = delete;
    Fault &operator=(const Fault &) = delete;

    // Ends the failures. True where there was one.
    bool end();
};

// Requests for memory of a scope, on all threads.
class MemoryRequests {
  public:
    MemoryRequests();
    std::uint64_t count() const;

  private:
    std::uint64_t before_;
};

// What the process holds.
struct Holdings {
    std::int64_t blocks;       // of operator new
    std::int64_t mappings;     // made by mmap
    std::int64_t descriptors;  // open
    std::int64_t threads;

    bool operator==(const Holdings &) const = default;
};
Holdings holdings();

}  // namespace kimi::test
