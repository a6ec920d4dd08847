// Steps in the background.
#include "capi/boundary.h"
#include "capi/handles.h"
#include "capi/in_use.h"
#include "capi/step.h"

using namespace kimi;
using namespace kimi::capi;

kimi_status kimi_session_submit(kimi_session *session, kimi_error *error) noexcept {
    return guarded(error, [&] {
        InUse held(session);
        session->length_before_step = held.session().n_tokens();
        session->background.submit();
        held.leave(Use::background);
    });
}

kimi_status kimi_session_poll(kimi_session *session, kimi_step *out, int32_t *ready,
                              kimi_error *error) noexcept {
    return guarded(error, [&] {
        const std::size_t size = struct_size(out, "out");
        int32_t &is_ready = not_null(ready, "ready");
        InUse held(session, Use::background);
        is_ready = session->background.collect();
        if (is_ready == 0) {
            held.leave(Use::background);
            return report(error, KIMI_OK, {});
        }
        write_step(held.session(), out, size);
        return report_step(held.session(), error);
    });
}

kimi_status kimi_session_wake_fd(kimi_session *session, int32_t *fd, kimi_error *error) noexcept {
    return guarded(error, [&] {
        kimi_session &handle = not_null(session, "session");
        not_null(fd, "fd") = handle.background.descriptor();
    });
}
