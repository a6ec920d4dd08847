#include <array>

#include "capi/boundary.h"
#include "capi/defaults.h"
#include "capi/handles.h"
#include "text/chat_request.h"

using namespace kimi;
using namespace kimi::capi;

namespace {

SessionOptions read_options(const kimi_session_options *in) {
    kimi_session_options o = default_session_options();
    if (in != nullptr) o = read_struct(in, o, sizeof o, "options");
    const auto in_range = [](const char *name, float value, float max) {
        if (!(value >= 0 && value <= max))
            fail(KIMI_INVALID_ARGUMENT, "options.", name, " is ", value, ", must be from 0 to ",
                 max);
    };
    in_range("temperature", o.temperature, 1e4f);
    in_range("top_p", o.top_p, 1);
    in_range("min_p", o.min_p, 1);
    if (o.draft_budget > kMaxTreeNodes && o.draft_budget != KIMI_AUTO)
        fail(KIMI_INVALID_ARGUMENT, "options.draft_budget is ", o.draft_budget,
             ", must be from 0 to ", kMaxTreeNodes, " or KIMI_AUTO");
    if (o.draft_mode > KIMI_DRAFT_CHAIN)
        fail(KIMI_INVALID_ARGUMENT, "options.draft_mode is ", o.draft_mode,
             ", must be KIMI_DRAFT_TREE or KIMI_DRAFT_CHAIN");
    if ((o.flags & ~std::uint32_t{KIMI_IGNORE_STOP}) != 0)
        fail(KIMI_INVALID_ARGUMENT, "options.flags is ", o.flags,
             ", must be 0 or KIMI_IGNORE_STOP");
    SessionOptions out;
    out.sampling = {o.seed, o.temperature, o.top_p, o.min_p, o.top_k};
    out.max_tokens = o.max_tokens;
    out.draft_budget = o.draft_budget;
    out.draft_chain = o.draft_mode == KIMI_DRAFT_CHAIN;
    out.ignore_stop = (o.flags & KIMI_IGNORE_STOP) != 0;
    return out;
}

// Holds sessions for one call; a second call on one of them at the same time is refused, and so is
// naming one twice.
class InUse {
  public:
    static constexpr std::size_t kMax = 256;

    explicit InUse(kimi_session *session) { add(session, "session"); }
    InUse(kimi_session *const *sessions, std::size_t n) {
        if (n > kMax)
            fail(KIMI_INVALID_ARGUMENT, "n is ", n, ", at most ", kMax, " sessions form a batch");
        try {
            for (kimi_session *session : array(sessions, n, "sessions"))
                add(session, cat("sessions[", n_, ']'));
        } catch (...) {
            release();
            throw;
        }
    }
    InUse(const InUse &) = delete;
    InUse &operator=(const InUse &) = delete;
    ~InUse() { release(); }

    Session &session() const { return handles_[0]->session; }
    std::span<Session *const> batch() const { return {batch_.data(), n_}; }

  private:
    void add(kimi_session *session, std::string_view name) {
        if (not_null(session, name).in_use.exchange(true, std::memory_order_acquire))
            fail(KIMI_INVALID_ARGUMENT, name, " is in use by another call, or named twice");
        handles_[n_] = session;
        batch_[n_++] = &session->session;
    }
    void release() {
        while (n_ > 0) handles_[--n_]->in_use.store(false, std::memory_order_release);
    }

    std::array<kimi_session *, kMax> handles_;
    std::array<Session *, kMax> batch_;
    std::size_t n_ = 0;
};

void write_step(const Session &session, void *out, std::size_t size) {
    const StepResult &result = session.result();
    kimi_step step = {};
    step.status = result.status;
    step.phase = result.phase;
    step.finish_reason = result.finish_reason;
    step.tokens = session.committed().data();
    step.n_tokens = session.committed().size();
    step.text = session.text().data();
    step.text_len = session.text().size();
    step.prompt_done = result.prompt_done;
    step.prompt_total = result.prompt_total;
    step.draft_nodes = result.draft_nodes;
    step.draft_accepted = result.draft_accepted;
    write_struct(out, size, step);
}

// The size of a result that the caller initialised.
template <typename T>
std::size_t result_size(const T *out) {
    const std::size_t size = not_null(out, "out").struct_size;
    if (size < sizeof(T) || size > kMaxStruct)
        fail(KIMI_INVALID_ARGUMENT, "out.struct_size is ", size, ", must be from ", sizeof(T),
             " to ", kMaxStruct, ": initialise the struct with its init macro");
    return size;
}

// One step of every session; `size` is that of the elements of out.
void step(const InUse &held, kimi_step *out, std::size_t size) {
    Engine &engine = held.session().engine();
    for (const Session *session : held.batch())
        if (&session->engine() != &engine)
            fail(KIMI_INVALID_ARGUMENT, "the sessions of the batch belong to different engines");
    engine.step(held.batch());
    char *to = reinterpret_cast<char *>(out);
    for (const Session *session : held.batch()) write_step(*session, to, size), to += size;
    for (const Session *session : held.batch())
        if (session->result().status != KIMI_OK)
            throw Error{session->result().status, session->result().error};
}

}  // namespace

kimi_status kimi_session_create(kimi_engine *engine, const kimi_session_options *options,
                                kimi_session **out, kimi_error *error) noexcept {
    return guarded(error, [&] {
        not_null(out, "out") = nullptr;
        const SessionOptions o = read_options(options);
        *out = new kimi_session(not_null(engine, "engine").engine, o);
    });
}

kimi_status kimi_session_set_options(kimi_session *session, const kimi_session_options *options,
                                     kimi_error *error) noexcept {
    return guarded(error, [&] { InUse(session).session().set_options(read_options(options)); });
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
        held.session().replace(encode_chat_request(*held.session().engine().tokenizer(),
                                                   capi::text(json, len, "json")));
    });
}

kimi_status kimi_decode_step(kimi_session *session, kimi_step *out, kimi_error *error) noexcept {
    return guarded(error, [&] { step(InUse(session), out, result_size(out)); });
}

kimi_status kimi_decode_batch(kimi_session *const *sessions, size_t n, kimi_step *out,
                              kimi_error *error) noexcept {
    return guarded(error, [&] {
        if (n > 0) step(InUse(sessions, n), out, result_size(out));
    });
}

kimi_status kimi_session_stats(kimi_session *session, kimi_session_statistics *out,
                               kimi_error *error) noexcept {
    return guarded(error, [&] {
        const std::size_t size = result_size(out);
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
        write_struct(out, size, result);
    });
}

void kimi_session_cancel(kimi_session *session) noexcept {
    if (session != nullptr) session->session.cancel();
}
