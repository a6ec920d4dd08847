// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <string>

namespace kimi {

class AtomicFile {
  public:
    // Creates a temporary file in the same folder. Throws KIMI_IO or KIMI_NOT_FOUND with the path.
    explicit AtomicFile(const std::string &path);
    AtomicFile(const AtomicFile &) = delete;
    AtomicFile &operator=(const AtomicFile &) = delete;
    // Removes the temporary file unless commit was called.
    ~AtomicFile();

    void write(const void *data, std::size_t bytes);
    // Makes everything durable and puts it in the place of what had the name.
    void commit();

  private:
    [[noreturn]] void io_error(const char *what) const;

    std::string path_, temporary_;
    int fd_;
};

}  // namespace kimi
