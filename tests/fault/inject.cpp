#include "fault/inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <new>

namespace kimi::test {
namespace {

constexpr int kNone = -1;
std::atomic<int> armed{kNone};  // the resource that fails
std::atomic<std::int64_t> until_failure;
std::atomic<bool> goes_on, failed;
std::atomic<std::uint64_t> memory_requests;
std::atomic<std::int64_t> live_blocks, live_mappings;

// Whether this request is one that fails.
bool fails(Resource resource) {
    if (armed.load(std::memory_order_relaxed) != static_cast<int>(resource)) return false;
    const std::int64_t left = until_failure.fetch_sub(1);
    if (left > 1 || (left < 1 && !goes_on)) return false;
    failed = true;
    return true;
}

bool memory_fails() {
    memory_requests.fetch_add(1, std::memory_order_relaxed);
    return fails(Resource::memory);
}

// The function that one of this file hides.
template <typename F>
F *original(F *, const char *name) {
    return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

std::int64_t entries(const char *folder) {
    std::int64_t n = 0;
    for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator(folder)) ++n;
    return n;
}

}  // namespace

Fault::Fault(Resource resource, std::uint64_t n, bool on) {
    until_failure = static_cast<std::int64_t>(n);
    goes_on = on;
    failed = false;
    armed = static_cast<int>(resource);
}
Fault::~Fault() {
    end();
}
bool Fault::end() {
    armed = kNone;
    return failed;
}

MemoryRequests::MemoryRequests() : before_(memory_requests) {}
std::uint64_t MemoryRequests::count() const {
    return memory_requests - before_;
}

Holdings holdings() {
    return {live_blocks, live_mappings, entries("/proc/self/fd"), entries("/proc/self/task")};
}

}  // namespace kimi::test

using kimi::test::Resource;

// ---- Memory ----

// Sanitizers bring a malloc of their own.
#ifdef KIMI_INSTRUMENTED
#define KIMI_ALLOCATE(bytes) malloc(bytes)
#define KIMI_RELEASE(block) free(block)
#else
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

void *malloc(size_t bytes) noexcept {
    if (!kimi::test::memory_fails()) return __libc_malloc(bytes);
    errno = ENOMEM;
    return nullptr;
}
void *calloc(size_t n, size_t bytes) noexcept {
    if (!kimi::test::memory_fails()) return __libc_calloc(n, bytes);
    errno = ENOMEM;
    return nullptr;
}
void *realloc(void *block, size_t bytes) noexcept {
    if (!kimi::test::memory_fails()) return __libc_realloc(block, bytes);
    errno = ENOMEM;
    return nullptr;
}
}
#define KIMI_ALLOCATE(bytes) __libc_malloc(bytes)
#define KIMI_RELEASE(block) __libc_free(block)
#endif

// All forms, because those of a sanitizer do not call these.
void *operator new(size_t bytes) {
    void *block = kimi::test::memory_fails() ? nullptr : KIMI_ALLOCATE(bytes);
    if (block == nullptr) throw std::bad_alloc();
    kimi::test::live_blocks.fetch_add(1, std::memory_order_relaxed);
    return block;
}
void operator delete(void *block) noexcept {
    if (block != nullptr) kimi::test::live_blocks.fetch_sub(1, std::memory_order_relaxed);
    KIMI_RELEASE(block);
}
void operator delete(void *block, size_t) noexcept {
    operator delete(block);
}
// An aligned block keeps where it begins before its first byte.
void *operator new(size_t bytes, std::align_val_t alignment) {
    const auto align = static_cast<size_t>(alignment);
    auto *begin = static_cast<char *>(operator new(bytes + align + sizeof(void *)));
    const auto first = reinterpret_cast<uintptr_t>(begin) + sizeof(void *);
    void *block = begin + sizeof(void *) + (align - first % align) % align;
    static_cast<void **>(block)[-1] = begin;
    return block;
}
void operator delete(void *block, std::align_val_t) noexcept {
    if (block != nullptr) operator delete(static_cast<void **>(block)[-1]);
}
void operator delete(void *block, size_t, std::align_val_t alignment) noexcept {
    operator delete(block, alignment);
}

void *operator new(size_t bytes, const std::nothrow_t &) noexcept {
    try {
        return operator new(bytes);
    } catch (...) {
        return nullptr;
    }
}
void operator delete(void *block, const std::nothrow_t &) noexcept {
    operator delete(block);
}
void *operator new[](size_t bytes) {
    return operator new(bytes);
}
void operator delete[](void *block) noexcept {
    operator delete(block);
}
void operator delete[](void *block, size_t) noexcept {
    operator delete(block);
}
void *operator new[](size_t bytes, std::align_val_t alignment) {
    return operator new(bytes, alignment);
}
void operator delete[](void *block, std::align_val_t alignment) noexcept {
    operator delete(block, alignment);
}
void operator delete[](void *block, size_t, std::align_val_t alignment) noexcept {
    operator delete(block, alignment);
}

extern "C" {

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
    static auto *const real = kimi::test::original(&mmap, "mmap");
    const bool is_memory = (flags & MAP_ANONYMOUS) != 0;
    if (is_memory ? kimi::test::memory_fails() : kimi::test::fails(Resource::file)) {
        errno = is_memory ? ENOMEM : ENODEV;
        return MAP_FAILED;
    }
    void *const data = real(at, bytes, protection, flags, fd, offset);
    if (data != MAP_FAILED) kimi::test::live_mappings.fetch_add(1);
    return data;
}
int munmap(void *at, size_t bytes) noexcept {
    static auto *const real = kimi::test::original(&munmap, "munmap");
    kimi::test::live_mappings.fetch_sub(1);
    return real(at, bytes);
}

// ---- Files ----

#define KIMI_FAIL_FILE(code)                 \
    if (kimi::test::fails(Resource::file)) { \
        errno = code;                        \
        return -1;                           \
    }

int open(const char *path, int flags, ...) {
    KIMI_FAIL_FILE(EMFILE)
    static auto *const real =
        reinterpret_cast<int (*)(const char *, int, mode_t)>(dlsym(RTLD_NEXT, "open"));
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return real(path, flags, mode);
}
int mkostemp(char *path, int flags) {
    static auto *const real = kimi::test::original(&mkostemp, "mkostemp");
    KIMI_FAIL_FILE(EACCES)
    return real(path, flags);
}
int eventfd(unsigned int count, int flags) noexcept {
    static auto *const real = kimi::test::original(&eventfd, "eventfd");
    KIMI_FAIL_FILE(EMFILE)
    return real(count, flags);
}
int fstat(int fd, struct stat *out) noexcept {
    static auto *const real = kimi::test::original(&fstat, "fstat");
    KIMI_FAIL_FILE(EIO)
    return real(fd, out);
}
int stat(const char *path, struct stat *out) noexcept {
    static auto *const real = kimi::test::original(&stat, "stat");
    KIMI_FAIL_FILE(EIO)
    return real(path, out);
}
ssize_t read(int fd, void *to, size_t bytes) {
    static auto *const real = kimi::test::original(&read, "read");
    KIMI_FAIL_FILE(EIO)
    return real(fd, to, bytes);
}
ssize_t write(int fd, const void *from, size_t bytes) {
    static auto *const real = kimi::test::original(&write, "write");
    KIMI_FAIL_FILE(ENOSPC)
    return real(fd, from, bytes);
}
// What is written need not outlive the test.
int fsync(int) {
    KIMI_FAIL_FILE(EIO)
    return 0;
}
int rename(const char *from, const char *to) noexcept {
    static auto *const real = kimi::test::original(&rename, "rename");
    KIMI_FAIL_FILE(EACCES)
    return real(from, to);
}

// ---- Threads ----

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) noexcept {
    static auto *const real = kimi::test::original(&pthread_create, "pthread_create");
    if (kimi::test::fails(Resource::thread)) return EAGAIN;
    return real(thread, attributes, start, argument);
}
}
