// What makes, saves, changes and destroys sessions, with every request to the system failing in
// turn.
#include <filesystem>

#include "fault/subject.h"

using namespace kimi::test;

namespace {

// In its folder: configuration, index, three shards, tokenizer, drafter; a deployment and a
// session.
constexpr int kFiles = 9;

}  // namespace

TEST_CASE("fault: sessions are made, saved and destroyed") {
    const Model model;
    const Balance balance;
    for (const char *fields : {kOneRank, kTwoRanks}) {
        Subject s(model, fields);
        kimi_engine *const engine = s.engine.get();
        const kimi_session_options options = client::endless();
        const std::vector<int32_t> start = prompt(70);
        Case create = s.of_session("kimi_session_create", [&](auto **out, auto *e) {
            return kimi_session_create(engine, &options, out, e);
        });
        create.done = [&] {
            s.session = std::move(s.other);
            client::append(s.session.get(), start);
            s.check_continues();
        };
        fail_each(create);
        fail_each(s.of_session("kimi_session_fork", [&](auto **out, auto *e) {
            return kimi_session_fork(s.session.get(), &options, out, e);
        }));
        fail_each(s.of_session("kimi_session_restore_buffer", [&](auto **out, auto *e) {
            return kimi_session_restore_buffer(engine, s.saved.data(), s.saved.size(), 0, out, e);
        }));
        const std::string file = model.dir.write("session", "old");
        fail_each(s.on_session("kimi_session_save", [&](auto *session, auto *e) {
            return kimi_session_save(session, file.c_str(), e);
        }));
        CHECK(kimi::read_file(file, 1 << 20) == s.saved);
        fail_each(s.of_session("kimi_session_restore", [&](auto **out, auto *e) {
            return kimi_session_restore(engine, file.c_str(), 0, out, e);
        }));
        std::string buffer(s.saved.size(), '\0');
        fail_each(s.on_session("kimi_session_save_buffer", [&](auto *session, auto *e) {
            std::size_t size = 0;
            return kimi_session_save_buffer(session, buffer.data(), buffer.size(), &size, e);
        }));
        fail_each({"kimi_session_destroy", [&] { s.renew(); },
                   [&](auto *) { return s.session.reset(), KIMI_OK; }});
        CHECK(std::distance(std::filesystem::directory_iterator(model.dir.path()), {}) == kFiles);
    }
}

TEST_CASE("fault: sessions go on") {
    const Model model;
    const Balance balance;
    for (const char *fields : {kOneRank, kTwoRanks}) {
        Subject s(model, fields);
        const std::vector<int32_t> more = prompt(10);
        fail_each(s.on_session("kimi_session_append", [&](auto *session, auto *e) {
            return kimi_session_append(session, more.data(), more.size(), e);
        }));
        const std::string chat =
            R"({"messages": [{"role": "user", "content": "hi there"}],
                "tools": [{"type": "function", "function": {"name": "f"}}]})";
        fail_each(s.on_session("kimi_session_append_chat", [&](auto *session, auto *e) {
            return kimi_session_append_chat(session, chat.data(), chat.size(), e);
        }));
        Case truncate = s.on_session("kimi_session_truncate", [&](auto *session, auto *e) {
            return kimi_session_truncate(session, 66, e);
        });
        truncate.done = [&] {
            client::append(s.session.get(), more);
            s.check_continues();
        };
        fail_each(truncate);
        const kimi_session_options options = client::endless();
        fail_each(s.on_session("kimi_session_set_options", [&](auto *session, auto *e) {
            return kimi_session_set_options(session, &options, e);
        }));
        kimi_session_statistics stats;
        fail_each(s.on_session("kimi_session_stats", [&](auto *session, auto *e) {
            kimi_session_statistics_init(&stats);
            return kimi_session_stats(session, &stats, e);
        }));
    }
}
