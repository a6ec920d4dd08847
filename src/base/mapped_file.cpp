#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace kimi {
namespace {

std::string reason(int code) {
    return std::generic_category().message(code);
}

bool is_missing(int code) {
    return code == ENOENT || code == ENOTDIR;
}

class Descriptor {
  public:
    explicit Descriptor(const std::string &path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (fd_ >= 0) return;
        fail(is_missing(errno) ? KIMI_NOT_FOUND : KIMI_IO, path, ": cannot open: ", reason(errno));
    }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    ~Descriptor() { close(fd_); }
    int get() const { return fd_; }

    // The size of a regular file.
    std::size_t size(const std::string &path) const {
        struct stat info {};
        if (fstat(fd_, &info) != 0) fail(KIMI_IO, path, ": cannot stat: ", reason(errno));
        if (!S_ISREG(info.st_mode)) fail(KIMI_IO, path, ": not a regular file");
        return static_cast<std::size_t>(info.st_size);
    }

  private:
    int fd_;
};

}  // namespace

MappedFile::MappedFile(const std::string &path) : path_(path) {
    const Descriptor file(path);
    size_ = file.size(path);
    if (size_ == 0) return;
    void *data = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (data == MAP_FAILED)
        fail(errno == ENOMEM ? KIMI_OUT_OF_MEMORY : KIMI_IO, path, ": cannot map ", size_,
             " bytes: ", reason(errno));
    data_ = static_cast<const std::byte *>(data);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<std::byte *>(data_), size_);
}

std::string read_file(const std::string &path, std::size_t max_bytes) {
    const Descriptor file(path);
    const std::size_t size = file.size(path);
    if (size > max_bytes)
        fail(KIMI_CORRUPT, path, ": ", size, " bytes, at most ", max_bytes, " are allowed");
    std::string text(size, '\0');
    std::size_t done = 0;
    while (done < size) {
        const ssize_t n = read(file.get(), text.data() + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail(KIMI_IO, path, ": cannot read: ", reason(errno));
        if (n == 0) break;
        done += static_cast<std::size_t>(n);
    }
    text.resize(done);
    return text;
}

bool is_directory(const std::string &path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool file_exists(const std::string &path) {
    struct stat info {};
    if (stat(path.c_str(), &info) == 0) return true;
    if (!is_missing(errno)) fail(KIMI_IO, path, ": cannot stat: ", reason(errno));
    return false;
}

}  // namespace kimi
