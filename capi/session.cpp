#include <algorithm>

#include "capi/boundary.h"
#include "capi/handles.h"
#include "capi/in_use.h"
#include "capi/options.h"
#include "capi/step.h"
#include "text/chat_request.h"

using namespace kimi;
using namespace kimi::capi;

namespace {

// One step of every session; `size` is that of the elements of out. Reports the first error.
kimi_status step(const InUse &held, kimi_step *out, std::size_t size, kimi_error *error) {
    Engine &engine = held.session().engine();
    for (const Session *session : held.batch())
        if (&session->engine() != &engine)
            fail(KIMI_INVALID_ARGUMENT, "the sessions of the batch belong to different engines");
    engine.step(held.batch());
    char *to = reinterpret_cast<char *>(out);
    for (const Session *session : held.batch()) write_step(*session, to, size), to += size;
    for (const Session *session : held.batch())
        if (session->result().status != KIMI_OK) return report_step(*session, error);
    return report(error, KIMI_OK, {});
}

}  // namespace

kimi_status kimi_session_create(kimi_engine *engine, const kimi_session_options *options,
                                kimi_session **out, kimi_error *error) noexcept {
    return guarded(error, [&] {
        not_null(out, "out") = nullptr;
        const SessionOptions o = read_session_options(options);
        *out = new kimi_session(std::make_unique<Session>(not_null(engine, "engine").engine, o));
    });
}

kimi_status kimi_session_set_options(kimi_session *session, const kimi_session_options *options,
                                     kimi_error *error) noexcept {
    return guarded(error,
                   [&] { InUse(session).session().set_options(read_session_options(options)); });
}

kimi_status kimi_session_set_constraint(kimi_session *session, uint32_t kind, const char *text,
                                        size_t len, kimi_error *error) noexcept {
    return guarded(error, [&] {
        const InUse held(session);
        const std::string_view what = capi::text(text, len, "text");
        held.session().next_rules().constraint =
            kind == KIMI_CONSTRAINT_NONE
                ? nullptr
                : held.session().engine().constraints().get(constraint_kind(kind), what);
    });
}

kimi_status kimi_session_set_logit_bias(kimi_session *session, const kimi_logit_bias *biases,
                                        size_t n, kimi_error *error) noexcept {
    return guarded(error, [&] {
        const InUse held(session);
        held.session().next_rules().biases =
            read_biases(array(biases, n, "biases"), held.session().engine().vocab());
    });
}

kimi_status kimi_session_set_stop_strings(kimi_session *session, const char *const *strings,
                                          size_t n, kimi_error *error) noexcept {
    return guarded(error, [&] {
        const InUse held(session);
        held.session().next_rules().stop_strings = read_stop_strings(array(strings, n, "strings"));
    });
}

kimi_session *kimi_session_retain(kimi_session *session) noexcept {
    if (session != nullptr) session->holders.fetch_add(1, std::memory_order_relaxed);
    return session;
}

void kimi_session_destroy(kimi_session *session) noexcept {
    if (session != nullptr && session->holders.fetch_sub(1, std::memory_order_acq_rel) == 1)
        delete session;
}

kimi_status kimi_session_append(kimi_session *session, const int32_t *tokens, size_t n,
                                kimi_error *error) noexcept {
    return guarded(error, [&] { InUse(session).session().append(array(tokens, n, "tokens")); });
}

kimi_status kimi_session_append_chat(kimi_session *session, const char *json, size_t len,
                                     kimi_error *error) noexcept {
    return guarded(error, [&] {
        const InUse held(session);
        ChatPrompt prompt = encode_chat_request(*held.session().engine().tokenizer(),
                                                capi::text(json, len, "json"));
        held.session().replace(prompt.tokens, std::move(prompt.tools));
    });
}

kimi_status kimi_decode_step(kimi_session *session, kimi_step *out, kimi_error *error) noexcept {
    return guarded(error,
                   [&] { return step(InUse(session), out, struct_size(out, "out"), error); });
}

kimi_status kimi_decode_batch(kimi_session *const *sessions, size_t n, kimi_step *out,
                              kimi_error *error) noexcept {
    return guarded(error, [&] {
        if (n == 0) return report(error, KIMI_OK, {});
        return step(InUse(sessions, n), out, struct_size(out, "out"), error);
    });
}

kimi_status kimi_session_stats(kimi_session *session, kimi_session_statistics *out,
                               kimi_error *error) noexcept {
    return guarded(error, [&] {
        const std::size_t size = struct_size(out, "out");
        const InUse held(session);
        const SessionStats &stats = held.session().stats();
        kimi_session_statistics result = {};
        result.steps = stats.steps;
        result.committed = stats.committed;
        result.drafted = stats.drafted;
        result.accepted = stats.accepted;
        static_assert(KIMI_MAX_DRAFT_DEPTH == kMaxTreeNodes);
        std::copy(stats.offered.begin(), stats.offered.end(), result.offered_at);
        std::copy(stats.accepted_at.begin(), stats.accepted_at.end(), result.accepted_at);
        result.draft_seconds = stats.draft;
        result.tree_seconds = stats.tree;
        result.verify_seconds = stats.verify;
        result.accept_seconds = stats.accept;
        result.compact_seconds = stats.compact;
        result.replies = stats.replies;
        result.prompt_tokens = stats.prompt_tokens;
        result.prompt_reused = stats.prompt_reused;
        result.reply_tokens = stats.reply_tokens;
        result.prefill_seconds = stats.prefill;
        result.decode_seconds = stats.decode;
        result.first_token_seconds = stats.first_token;
        result.reply_seconds = stats.reply;
        write_struct(out, size, result);
    });
}

void kimi_session_cancel(kimi_session *session) noexcept {
    if (session != nullptr) session->session->cancel();
}
