// Sessions as values: length, truncate, fork, save, restore.
#include <cstring>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "capi/boundary.h"
#include "capi/handles.h"
#include "capi/in_use.h"
#include "capi/options.h"
#include "engine/session_file.h"

using namespace kimi;
using namespace kimi::capi;

namespace {

std::unique_ptr<Session> restore(kimi_engine *engine, std::span<const std::byte> bytes,
                                 std::uint32_t flags) {
    if ((flags & ~std::uint32_t{KIMI_RECOMPUTE}) != 0)
        fail(KIMI_INVALID_ARGUMENT, "flags is ", flags, ", must be 0 or KIMI_RECOMPUTE");
    return restore_session(not_null(engine, "engine").engine, bytes, flags == KIMI_RECOMPUTE);
}

}  // namespace

uint64_t kimi_session_length(const kimi_session *session) noexcept {
    if (session == nullptr) return 0;
    const bool computed = session->use.load(std::memory_order_acquire) == Use::background;
    return computed ? session->length_before_step : session->session->n_tokens();
}

kimi_status kimi_session_truncate(kimi_session *session, uint64_t n, kimi_error *error) noexcept {
    return guarded(error, [&] { InUse(session).session().truncate(n); });
}

kimi_status kimi_session_fork(kimi_session *source, const kimi_session_options *options,
                              kimi_session **out, kimi_error *error) noexcept {
    return guarded(error, [&] {
        not_null(out, "out") = nullptr;
        const InUse held(source);
        *out = new kimi_session(options == nullptr
                                    ? held.session().fork()
                                    : held.session().fork(read_session_options(options)));
    });
}

kimi_status kimi_session_save(kimi_session *session, const char *path, kimi_error *error) noexcept {
    return guarded(error, [&] {
        const InUse held(session);
        AtomicFile file(&not_null(path, "path"));
        save_session(held.session(), [&](const void *data, std::size_t n) { file.write(data, n); });
        file.commit();
    });
}

kimi_status kimi_session_save_buffer(kimi_session *session, void *buffer, size_t cap, size_t *size,
                                     kimi_error *error) noexcept {
    return guarded(error, [&] {
        const std::span<std::byte> to = array(static_cast<std::byte *>(buffer), cap, "buffer");
        std::size_t &n = not_null(size, "size");
        std::size_t needed = 0;
        const InUse held(session);
        save_session(held.session(), [&](const void *data, std::size_t bytes) {
            if (needed + bytes <= cap) std::memcpy(to.data() + needed, data, bytes);
            needed += bytes;
        });
        n = needed;
        if (needed > cap)
            fail(KIMI_TOO_LONG, "buffer has room for ", cap, ", ", needed, " are needed");
    });
}

kimi_status kimi_session_restore(kimi_engine *engine, const char *path, uint32_t flags,
                                 kimi_session **out, kimi_error *error) noexcept {
    return guarded(error, [&] {
        not_null(out, "out") = nullptr;
        const MappedFile file(&not_null(path, "path"));
        *out = new kimi_session(restore(engine, file.bytes(), flags));
    });
}

kimi_status kimi_session_restore_buffer(kimi_engine *engine, const void *buffer, size_t size,
                                        uint32_t flags, kimi_session **out,
                                        kimi_error *error) noexcept {
    return guarded(error, [&] {
        not_null(out, "out") = nullptr;
        *out = new kimi_session(
            restore(engine, array(static_cast<const std::byte *>(buffer), size, "buffer"), flags));
    });
}
