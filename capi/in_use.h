// Sessions for the length of one call.
#pragma once

#include <array>
#include <span>

#include "capi/boundary.h"
#include "capi/handles.h"

namespace kimi::capi {

// Holds sessions for one call; a second call on one of them at the same time is refused, and so is
// naming one twice.
class InUse {
  public:
    static constexpr std::size_t kMax = 256;

    // expected: free, or background, to collect a step.
    explicit InUse(kimi_session *session, Use expected = Use::free) {
        add(session, "session", expected);
    }
    InUse(kimi_session *const *sessions, std::size_t n) {
        if (n > kMax)
            fail(KIMI_INVALID_ARGUMENT, "n is ", n, ", at most ", kMax, " sessions form a batch");
        try {
            for (kimi_session *session : array(sessions, n, "sessions"))
                add(session, cat("sessions[", n_, ']'), Use::free);
        } catch (...) {
            release();
            throw;
        }
    }
    InUse(const InUse &) = delete;
    InUse &operator=(const InUse &) = delete;
    ~InUse() { release(); }

    // What the sessions are at the end of the call, if not free.
    void leave(Use use) { after_ = use; }

    Session &session() const { return *handles_[0]->session; }
    std::span<Session *const> batch() const { return {batch_.data(), n_}; }

  private:
    void add(kimi_session *session, std::string_view name, Use expected) {
        Use use = expected;
        if (!not_null(session, name)
                 .use.compare_exchange_strong(use, Use::call, std::memory_order_acquire))
            fail(KIMI_INVALID_ARGUMENT, name,
                 use == Use::call   ? " is in use by another call, or named twice"
                 : use == Use::free ? " has no submitted step"
                                    : " has a submitted step, which must be collected first");
        handles_[n_] = session;
        batch_[n_++] = session->session.get();
    }
    void release() {
        while (n_ > 0) handles_[--n_]->use.store(after_, std::memory_order_release);
    }

    std::array<kimi_session *, kMax> handles_;
    std::array<Session *, kMax> batch_;
    std::size_t n_ = 0;
    Use after_ = Use::free;
};

}  // namespace kimi::capi
