#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/error.h"

namespace kimi {

void AtomicFile::io_error(const char *what) const {
    fail(errno == ENOENT ? KIMI_NOT_FOUND : KIMI_IO, path_, ": cannot ", what, ": ",
         std::generic_category().message(errno));
}

// The mode is what the process's umask leaves, which mkstemp does not offer.
AtomicFile::AtomicFile(const std::string &path) : path_(path) {
    static std::atomic<unsigned> n_files{0};
    do {
        temporary_ = cat(path, '.', getpid(), '-', n_files.fetch_add(1));
        fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (fd_ < 0 && errno == EEXIST);
    if (fd_ < 0) io_error("create a temporary file beside it");
}

AtomicFile::~AtomicFile() {
    if (fd_ < 0) return;
    close(fd_);
    unlink(temporary_.c_str());
}

void AtomicFile::write(const void *data, std::size_t bytes) {
    const auto *from = static_cast<const char *>(data);
    while (bytes > 0) {
        const ssize_t n = ::write(fd_, from, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) io_error("write");
        from += n;
        bytes -= static_cast<std::size_t>(n);
    }
}

void AtomicFile::commit() {
    if (fsync(fd_) != 0) io_error("write");
    if (rename(temporary_.c_str(), path_.c_str()) != 0) io_error("rename");
    close(fd_);
    fd_ = -1;
    // The new name is durable when its folder is.
    path_.resize(path_.rfind('/') + 1);
    const int dir = open(path_.empty() ? "." : path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return;
    fsync(dir);
    close(dir);
}

}  // namespace kimi
