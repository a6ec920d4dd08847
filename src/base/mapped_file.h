// A read-only file mapped into memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kimi {

class MappedFile {
  public:
    MappedFile() = default;
    // Throws KIMI_NOT_FOUND, KIMI_IO or KIMI_OUT_OF_MEMORY with the path.
    explicit MappedFile(const std::string &path);
    MappedFile(MappedFile &&other) noexcept;
    MappedFile &operator=(MappedFile &&other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    const std::string &path() const { return path_; }

  private:
    std::string path_;
    const std::byte *data_ = nullptr;
    std::size_t size_ = 0;
};

// The whole of a small file. Throws KIMI_NOT_FOUND, KIMI_IO, and KIMI_CORRUPT above max_bytes.
std::string read_file(const std::string &path, std::size_t max_bytes);

bool is_directory(const std::string &path);
// Throws KIMI_IO where that cannot be told.
bool file_exists(const std::string &path);

}  // namespace kimi
