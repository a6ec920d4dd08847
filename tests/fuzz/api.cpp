// Calls of the public interface, by their bytes, on up to four sessions of a tiny engine.
#include <algorithm>
#include <vector>

#include "fuzz/engine.h"

using namespace kimi;

namespace {

constexpr std::size_t kSessions = 4;

class Calls {
  public:
    Calls(const std::uint8_t *data, std::size_t size) : in_(data, size) {}
    ~Calls() {
        for (kimi_session *session : sessions_) kimi_session_destroy(session);
        check_pages();
    }

    void run() {
        while (!in_.empty()) call();
    }

  private:
    kimi_session *&any() { return sessions_[in_.byte() % kSessions]; }
    void replace(kimi_session *&old, kimi_session *session) {
        kimi_session_destroy(old);
        old = session;
    }

    kimi_session_options options() {
        kimi_session_options o;
        kimi_session_options_init(&o);
        o.seed = in_.byte();
        o.max_tokens = in_.byte() % 16;
        o.temperature = static_cast<float>(in_.byte()) / 64;
        o.top_p = static_cast<float>(in_.byte()) / 255;
        o.min_p = static_cast<float>(in_.byte()) / 128;
        o.top_k = in_.byte() % 8;
        o.draft_budget = in_.byte();
        o.draft_mode = in_.byte() % 3;
        o.flags = in_.byte() % 3;
        return o;
    }

    void call() {
        switch (in_.byte() % 16) {
            case 0: {
                const kimi_session_options o = options();
                kimi_session *session = nullptr;
                fuzz::checked(kimi_session_create(engine_, &o, &session, nullptr));
                return replace(any(), session);
            }
            case 1:
                return append();
            case 2:
            case 3:
                if (kimi_session *session = any()) fuzz::step(session);
                return;
            case 4:
                return batch();
            case 5:
                fuzz::checked(kimi_session_truncate(any(), in_.byte(), nullptr));
                return;
            case 6: {
                const kimi_session_options o = options();
                kimi_session *session = nullptr;
                fuzz::checked(
                    kimi_session_fork(any(), in_.byte() % 2 ? &o : nullptr, &session, nullptr));
                return replace(any(), session);
            }
            case 7:
                return save_and_restore();
            case 8: {
                const kimi_session_options o = options();
                fuzz::checked(kimi_session_set_options(any(), &o, nullptr));
                return;
            }
            case 9:
                return constrain();
            case 10: {
                const kimi_logit_bias biases[2] = {
                    {in_.byte() * 3, static_cast<float>(in_.byte()) - 128}, {in_.byte(), 50}};
                fuzz::checked(kimi_session_set_logit_bias(any(), biases, in_.byte() % 3, nullptr));
                return;
            }
            case 11: {
                const std::string stop(in_.take(in_.byte() % 4));
                const char *const strings[] = {stop.c_str(), "ab"};
                fuzz::checked(
                    kimi_session_set_stop_strings(any(), strings, in_.byte() % 3, nullptr));
                return;
            }
            case 12:
                return kimi_session_cancel(any());
            case 13:
                return replace(any(), nullptr);
            case 14:
                fuzz::checked(kimi_engine_defragment(engine_, nullptr));
                return check_pages();
            case 15: {
                const std::string chat = R"({"messages": [{"role": "user", "content": ")" +
                                         std::string(in_.take(in_.byte() % 16)) + "\"}]}";
                fuzz::checked(kimi_session_append_chat(any(), chat.data(), chat.size(), nullptr));
                return;
            }
        }
    }

    void append() {
        kimi_session *session = any();
        std::vector<std::int32_t> tokens(in_.byte() % 100);
        const std::uint8_t first = in_.byte();
        for (std::size_t i = 0; i < tokens.size(); ++i)
            tokens[i] = static_cast<std::int32_t>((first + i * 7) % 300);
        const std::uint64_t before = kimi_session_length(session);
        const bool appended = fuzz::checked(kimi_session_append(session, tokens.data(),
                                                                tokens.size(), nullptr)) == KIMI_OK;
        fuzz::expect(kimi_session_length(session) == before + (appended ? tokens.size() : 0),
                     "an append has another length");
    }

    void batch() {
        kimi_session *sessions[kSessions];
        std::size_t n = 0;
        for (kimi_session *session : sessions_)
            if (session != nullptr) sessions[n++] = session;
        if (in_.byte() % 8 == 0 && n > 1) sessions[1] = sessions[0];  // refused
        kimi_step steps[kSessions];
        kimi_step_init(&steps[0]);
        fuzz::checked(kimi_decode_batch(sessions, n, steps, nullptr));
    }

    void save_and_restore() {
        kimi_session *session = any();
        if (session == nullptr) return;
        std::size_t size = 0;
        kimi_session_save_buffer(session, nullptr, 0, &size, nullptr);
        std::string bytes(size, '\0');
        fuzz::expect(
            kimi_session_save_buffer(session, bytes.data(), size, &size, nullptr) == KIMI_OK,
            "a session cannot be saved");
        const std::uint8_t damage = in_.byte();
        if (damage % 4 == 0) bytes[damage * 7 % size] ^= 1;
        kimi_session *copy = nullptr;
        const kimi_status status = fuzz::checked(kimi_session_restore_buffer(
            engine_, bytes.data(), size, damage & KIMI_RECOMPUTE, &copy, nullptr));
        fuzz::expect(damage % 4 == 0 || status == KIMI_OK || status == KIMI_BUSY,
                     "what was saved is refused");
        if (status == KIMI_OK)
            fuzz::expect(kimi_session_length(copy) == kimi_session_length(session),
                         "a restored session has another length");
        replace(any(), copy);
    }

    void constrain() {
        static constexpr const char *kTexts[][2] = {
            {"{\"type\": \"integer\"}", "{}"}, {"[a-f]{3,5}x?", "(ab|c)*"}, {"[]", "[{}]"}};
        const std::uint32_t kind = in_.byte() % 5;
        const std::string text = kTexts[kind % 3][in_.byte() % 2];
        fuzz::checked(kimi_session_set_constraint(any(), kind, text.data(), text.size(), nullptr));
    }

    void check_pages() const {
        kimi_engine_statistics stats;
        kimi_engine_statistics_init(&stats);
        fuzz::checked(kimi_engine_stats(engine_, &stats, nullptr));
        fuzz::expect(stats.pages_free + stats.pages_cached + stats.session_pages >= stats.pages,
                     "pages are lost");
    }

    fuzz::Bytes in_;
    kimi_engine *const engine_ = fuzz::tiny_engine();
    kimi_session *sessions_[kSessions] = {};
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    Calls(data, size).run();
    return 0;
}
