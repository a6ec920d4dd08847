#include <algorithm>
#include <cstdio>

#include "base/thread_pool.h"
#include "commands.h"
#include "machine.h"
#include "measure.h"

namespace kimi::bench {

void run_decode(const Options &options) {
    const auto engine = open_engine(options.deployment);
    const Runner &runner = engine->runner();
    const double bandwidth = read_bandwidth(available_cores());
    std::printf("read bandwidth        %8.2f GB/s\n", bandwidth);

    const std::uint32_t n_prompt = options.prompt > 0 ? options.prompt : 512;
    Session session(engine, greedy(0));
    session.append(random_tokens(n_prompt, engine->vocab()));
    std::printf("prefill %6u tokens  %8.1f tokens/s\n", n_prompt, n_prompt / prefill(session));

    // The first steps bring the weights into memory.
    for (int i = 0; i < 2; ++i) timed_step(session);
    std::vector<double> seconds;
    while (seconds.size() < options.generate && session.result().phase == KIMI_PHASE_DECODE)
        seconds.push_back(timed_step(session));
    const double step = median(seconds);
    const auto weights =
        static_cast<double>(runner.weights().bytes_per_token(runner.config().top_k));
    const auto kv =
        static_cast<double>(runner.kv().n_layers * runner.kv().token_bytes() * session.n_tokens());
    const double rate = (weights + kv) / step / 1e9;
    std::printf("decode  %6zu tokens  %8.1f tokens/s  (median step %.2f ms)\n", seconds.size(),
                1 / step, step * 1e3);
    std::printf("bytes per token       %8.2f MB (weights %.2f, KV %.2f)\n", (weights + kv) / 1e6,
                weights / 1e6, kv / 1e6);
    if (!options.trace.empty()) save_trace(*engine, options.trace);
    std::printf("decode reads          %8.2f GB/s = %.0f %% of the read bandwidth\n", rate,
                100 * rate / bandwidth);
}

}  // namespace kimi::bench
