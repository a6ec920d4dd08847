// A reply's events.
#include <string>

#include "capi/boundary.h"
#include "capi/handles.h"
#include "capi/in_use.h"
#include "capi/step.h"

using namespace kimi;
using namespace kimi::capi;

namespace {

bool has_text(std::uint32_t kind) {
    return kind != KIMI_EVENT_NONE && kind != KIMI_EVENT_CALL_BEGIN && kind != KIMI_EVENT_FINISHED;
}

bool is_of_call(std::uint32_t kind) {
    return kind == KIMI_EVENT_CALL_BEGIN || kind == KIMI_EVENT_CALL_ARGUMENTS ||
           kind == KIMI_EVENT_CALL;
}

kimi_event make_event(const Session &session, std::uint32_t kind) {
    const ReplyEvents &events = session.events();
    kimi_event event = {};
    event.kind = kind;
    if (has_text(kind)) {
        event.text = events.text().data();
        event.text_len = events.text().size();
    }
    if (is_of_call(kind)) {
        event.call = events.call_index();
        event.id = events.call_id().data();
        event.id_len = events.call_id().size();
        event.name = events.call_name().data();
        event.name_len = events.call_name().size();
    }
    if (kind == KIMI_EVENT_FINISHED) {
        event.finish_reason = session.result().finish_reason;
        event.status = session.failure().status;
        event.prompt_tokens = session.reply_begin();
        event.reply_tokens = session.n_tokens() - session.reply_begin();
        event.calls = events.n_calls();
    }
    return event;
}

// Steps until there is an event, or no step for lack of room.
std::uint32_t next_event(const InUse &held) {
    Session &session = held.session();
    std::uint32_t kind = session.take_event();
    while (kind == KIMI_EVENT_NONE && session.result().phase != KIMI_PHASE_FINISHED) {
        session.engine().step(held.batch());
        if (session.result().status == KIMI_BUSY) break;
        kind = session.take_event();
    }
    return kind;
}

}  // namespace

kimi_status kimi_session_next_event(kimi_session *session, uint32_t flags, kimi_event *out,
                                    kimi_error *error) noexcept {
    return guarded(error, [&] {
        const std::size_t size = struct_size(out, "out");
        if ((flags & ~std::uint32_t{KIMI_NO_STEP}) != 0)
            fail(KIMI_INVALID_ARGUMENT, "flags is ", flags, ", must be 0 or KIMI_NO_STEP");
        const InUse held(session);
        const std::uint32_t kind =
            flags == KIMI_NO_STEP ? held.session().take_event() : next_event(held);
        const Session &of = held.session();
        if (kind == KIMI_EVENT_NONE && flags != KIMI_NO_STEP && of.result().status == KIMI_BUSY)
            return report_step(of, error);
        write_struct(out, size, make_event(of, kind));
        if (kind != KIMI_EVENT_FINISHED) return report(error, KIMI_OK, {});
        return report(error, of.failure().status, of.failure().text);
    });
}
