// The border between C and C++: exceptions become statuses, structs of other sizes become ours.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "kimi/kimi.h"

namespace kimi::capi {

// Fills the caller's record, if there is one; returns status.
kimi_status report(kimi_error *error, kimi_status status, std::string_view text) noexcept;

// Runs f and turns what it throws into a status. f may also return a status that it has reported.
template <typename F>
kimi_status guarded(kimi_error *error, F &&f) noexcept {
    try {
        if constexpr (std::is_same_v<std::invoke_result_t<F>, kimi_status>) return f();
        f();
        return report(error, KIMI_OK, {});
    } catch (...) {
        const Error caught = current_error();
        return report(error, caught.status, caught.text);
    }
}

template <typename T>
T &not_null(T *pointer, std::string_view name) {
    if (pointer == nullptr) fail(KIMI_INVALID_ARGUMENT, name, " is NULL");
    return *pointer;
}

// An array argument: NULL only where it is empty.
template <typename T>
std::span<T> array(T *pointer, std::size_t n, std::string_view name) {
    if (pointer == nullptr && n > 0) fail(KIMI_INVALID_ARGUMENT, name, " is NULL");
    return {pointer, n};
}

inline std::string_view text(const char *pointer, std::size_t n, std::string_view name) {
    const std::span<const char> chars = array(pointer, n, name);
    return {chars.data(), chars.size()};
}

// No struct grows beyond this: a larger struct_size was never initialised.
inline constexpr std::size_t kMaxStruct = 4096;

// The size of a struct in the first release, 0.1.0: programs that were built with it keep working.
template <typename T>
inline constexpr std::size_t kFirstSize = sizeof(T);
#define KIMI_FIRST_SIZE(type, last_member)          \
    template <>                                     \
    inline constexpr std::size_t kFirstSize<type> = \
        offsetof(type, last_member) + sizeof(type::last_member)
KIMI_FIRST_SIZE(kimi_engine_options, user);
KIMI_FIRST_SIZE(kimi_session_options, flags);
KIMI_FIRST_SIZE(kimi_step, draft_accepted);
KIMI_FIRST_SIZE(kimi_event, calls);
KIMI_FIRST_SIZE(kimi_session_statistics, compact_seconds);
KIMI_FIRST_SIZE(kimi_engine_statistics, decode_rows);
KIMI_FIRST_SIZE(kimi_estimate, capacity_tokens);
#undef KIMI_FIRST_SIZE

// The size of a struct that the caller initialised.
template <typename T>
std::size_t struct_size(const T *caller, std::string_view name) {
    const std::size_t size = not_null(caller, name).struct_size;
    if (size < kFirstSize<T> || size > kMaxStruct)
        fail(KIMI_INVALID_ARGUMENT, name, ".struct_size is ", size, ", must be from ",
             kFirstSize<T>, " to ", kMaxStruct, ": initialise the struct with its init macro");
    return size;
}

// A struct as this version knows it: members that the caller's struct lacks keep the value they
// have in `defaults`. Members that only a newer header has must be zero.
template <typename T>
T read_struct(const T *in, const T &defaults, std::string_view name) {
    const std::size_t size = struct_size(in, name);
    const auto *bytes = reinterpret_cast<const char *>(in);
    for (std::size_t i = sizeof(T); i < size; ++i)
        if (bytes[i] != 0)
            fail(KIMI_VERSION_MISMATCH, name,
                 " uses members that this version of libkimi does not have");
    T out = defaults;
    std::memcpy(static_cast<void *>(&out), in, std::min(size, sizeof(T)));
    return out;
}

// Writes as much of a result as the caller's struct holds.
template <typename T>
void write_struct(void *out, std::size_t caller_size, T value) {
    value.struct_size = caller_size;
    std::memcpy(out, static_cast<const void *>(&value), std::min(caller_size, sizeof(T)));
}

// Copies a result of n elements into a caller's buffer of cap and always writes the size.
template <typename T>
void copy_out(const T *from, std::size_t n, T *to, std::size_t cap, std::size_t *size,
              std::string_view name, std::string_view size_name) {
    if (to == nullptr && cap > 0) fail(KIMI_INVALID_ARGUMENT, name, " is NULL, but cap is ", cap);
    not_null(size, size_name) = n;
    if (n > cap) fail(KIMI_TOO_LONG, name, " has room for ", cap, ", ", n, " are needed");
    std::copy_n(from, n, to);
}

}  // namespace kimi::capi
