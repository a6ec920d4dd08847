#include "measure.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/error.h"

namespace kimi::bench {

std::vector<std::int32_t> random_tokens(std::uint32_t n, std::uint32_t vocab, std::uint32_t seed) {
    std::vector<std::int32_t> tokens(n);
    for (std::int32_t &token : tokens) {
        seed = seed * 1664525 + 1013904223;
        token = static_cast<std::int32_t>(seed / 7 % vocab);
    }
    return tokens;
}

void save_trace(Engine &engine, const std::string &path) {
    const std::string trace = engine.trace();
    AtomicFile file(path);
    file.write(trace.data(), trace.size());
    file.commit();
}

double timed_step(Session &session) {
    Session *batch[] = {&session};
    const auto start = std::chrono::steady_clock::now();
    session.engine().step(batch);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (session.result().status != KIMI_OK)
        throw Error{session.result().status, session.result().error};
    return seconds.count();
}

double prefill(Session &session) {
    double seconds = 0;
    while (session.result().phase == KIMI_PHASE_PREFILL) seconds += timed_step(session);
    return seconds;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

std::unique_ptr<Session> filled_session(const std::shared_ptr<Engine> &engine, std::uint32_t n,
                                        const SessionOptions &options) {
    constexpr std::uint32_t kSource = 16 * kPageTokens;
    Session source(engine, options);
    source.append(random_tokens(kSource, engine->vocab()));
    prefill(source);

    SessionState state;
    state.options = state.next_options = options;
    state.tokens = random_tokens(n, engine->vocab(), 2);
    state.reply_begin = n - 1;
    state.phase = KIMI_PHASE_DECODE;
    auto session = std::make_unique<Session>(engine, std::move(state));
    const auto kv = engine->kv();
    KvSequence &sequence = session->kv();
    kv->reserve(sequence, n - 1);
    for (std::size_t i = 0; i < sequence.pages.size(); ++i)
        engine->runner().memory().copy_page(source.kv().pages[i % 16], sequence.pages[i]);
    sequence.n_tokens = n - 1;
    sequence.ring_begin = n - 1;  // the drafter's full layers have the copies, its rings fill up
    return session;
}

}  // namespace kimi::bench
