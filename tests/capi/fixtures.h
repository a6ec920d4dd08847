// What several tests of the C ABI begin with.
#pragma once

#include <atomic>
#include <thread>

#include "capi/client.h"
#include "capi/goldens.h"

namespace client {

// nano-k2, without a drafter, with KV for so many tokens.
inline Engine load_with_capacity(std::uint64_t tokens) {
    const kimi::test::TempDir dir;
    return load(
        dir.write("d.json", kimi::cat(R"({"checkpoint": ")", KIMI_MODELS,
                                      R"(/nano-k2", "kv": {"capacity_tokens": )", tokens, "}}")));
}

// A reply that another thread steps to its end, which must be the golden's.
class SteadyReply {
  public:
    explicit SteadyReply(kimi_engine *engine)
        : thread_([this, engine, golden = kimi::test::golden_replies()[0]] {
              const Session session = open(engine);
              append(session.get(), golden.prompt);
              CHECK(finish(session.get()).tokens == golden.tokens);
              done_ = true;
          }) {}
    ~SteadyReply() { thread_.join(); }

    bool is_done() const { return done_; }

  private:
    std::atomic<bool> done_{false};
    std::thread thread_;
};

}  // namespace client
