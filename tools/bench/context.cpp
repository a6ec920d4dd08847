#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/thread_pool.h"
#include "commands.h"
#include "engine/plan_builder.h"
#include "machine.h"
#include "measure.h"

namespace kimi::bench {
namespace {

// Seconds of attention over the context in all layers, for the session's next token: the best of
// several passes, as for the machine's own rates.
double attention_seconds(Session &session) {
    const Runner &runner = session.engine().runner();
    Device &device = runner.device();
    const ModelConfig &c = runner.config();
    const MlaShape shape{c.n_heads, c.nope_dim, c.rope_dim, c.v_dim, c.kv_rank, c.softmax_scale()};
    const Buffer q = device.alloc(1, c.n_heads * c.qk_dim()),
                 out = device.alloc(1, c.n_heads * c.v_dim);
    const Buffer kv = device.alloc(1, c.latent_dim()), rope = device.alloc(1, c.rope_dim);
    PlanBuilder builder(1);
    builder.add_prompt(session.kv().pages, session.pending(), session.kv().n_tokens, false);
    device.begin(builder.plan());
    std::vector<double> seconds;
    for (int pass = 0; pass < 25; ++pass) {
        const auto start = std::chrono::steady_clock::now();
        for (std::uint32_t layer = 0; layer < c.n_layers; ++layer)
            device.mla(layer, shape, runner.weights().layers[layer].mla, q, kv, rope, out);
        seconds.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return *std::min_element(seconds.begin(), seconds.end());
}

}  // namespace

void run_context(const Options &options) {
    const auto engine = open_engine(options.deployment);
    const Runner &runner = engine->runner();
    if (runner.n_ranks() > 1)
        fail(KIMI_UNSUPPORTED, "the attention of one rank is measured, this deployment has ",
             runner.n_ranks());
    const ModelConfig &c = runner.config();
    const unsigned threads = available_cores();
    const double bandwidth = read_bandwidth(threads), fmas = fma_rate(threads);
    std::printf("read bandwidth %.2f GB/s, %.1f GFMA/s\n", bandwidth, fmas);
    std::printf("%9s %11s %13s %9s %9s %22s\n", "context", "step ms", "attention ms", "GB/s",
                "GFMA/s", "of what is possible");
    for (const std::uint32_t n : options.fill) {
        const auto session = filled_session(engine, n, greedy(0));
        const double attention = attention_seconds(*session);
        std::vector<double> steps;
        for (int i = 0; i < 12; ++i) steps.push_back(timed_step(*session));
        const double bytes =
            static_cast<double>(runner.kv().n_layers * runner.kv().token_bytes()) * n;
        const double work = 2.0 * c.kv_rank + c.rope_dim;
        const double products = work * c.n_heads * c.n_layers * n;
        const double bound = std::max(bytes / bandwidth, products / fmas) / 1e9;
        std::printf("%9u %11.2f %13.2f %9.2f %9.1f %20.0f %%\n", n, median(steps) * 1e3,
                    attention * 1e3, bytes / attention / 1e9, products / attention / 1e9,
                    100 * bound / attention);
    }
}

}  // namespace kimi::bench
