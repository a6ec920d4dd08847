// kimi-bench: how fast a deployment reads prompts and decodes, next to what the machine's memory
// allows.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bandwidth.h"
#include "base/error.h"
#include "engine/engine.h"

namespace kimi::bench {
namespace {

struct Options {
    std::string deployment;
    std::uint32_t prompt = 512, generate = 64;
};

constexpr const char *kUsage =
    "usage: kimi-bench DEPLOYMENT [--prompt N] [--generate N]\n"
    "\n"
    "Measures this machine's read bandwidth, then prefill of N random tokens (default 512) and\n"
    "greedy decoding of N tokens (default 64) behind them.\n";

std::uint32_t number(const char *text, const char *option) {
    std::uint32_t value = 0;
    const char *end = text + std::strlen(text);
    const auto [at, error] = std::from_chars(text, end, value);
    if (at != end || error != std::errc() || value == 0)
        fail(KIMI_INVALID_ARGUMENT, option, ": ", text, " is not a positive number");
    return value;
}

Options parse(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string arg = argv[i];
        if (!arg.starts_with("--")) {
            options.deployment = arg;
            continue;
        }
        if (i + 1 == argc) fail(KIMI_INVALID_ARGUMENT, arg, " needs a value");
        const char *value = argv[++i];
        if (arg == "--prompt") {
            options.prompt = number(value, "--prompt");
        } else if (arg == "--generate") {
            options.generate = number(value, "--generate");
        } else {
            fail(KIMI_INVALID_ARGUMENT, "unknown option ", arg);
        }
    }
    if (options.deployment.empty()) fail(KIMI_INVALID_ARGUMENT, "no deployment given");
    return options;
}

// Steps the session once and returns the seconds it took.
double timed_step(Session &session) {
    Session *batch[] = {&session};
    const auto start = std::chrono::steady_clock::now();
    session.engine().step(batch);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (session.result().status != KIMI_OK)
        throw Error{session.result().status, session.result().error};
    return seconds.count();
}

std::vector<std::int32_t> random_tokens(std::uint32_t n, std::uint32_t vocab) {
    std::vector<std::int32_t> tokens(n);
    std::uint32_t state = 1;
    for (std::int32_t &token : tokens) {
        state = state * 1664525 + 1013904223;
        token = static_cast<std::int32_t>(state / 7 % vocab);
    }
    return tokens;
}

void run(const Options &options) {
    const auto engine = std::make_shared<Engine>(options.deployment, Progress());
    const Runner &runner = engine->runner();
    const double bandwidth = read_bandwidth(std::max(1U, std::thread::hardware_concurrency()));
    std::printf("read bandwidth        %8.2f GB/s\n", bandwidth);

    SessionOptions session_options;
    session_options.sampling.temperature = 0;
    session_options.ignore_stop = true;
    session_options.draft_budget = 0;
    Session session(engine, session_options);
    session.append(random_tokens(options.prompt, engine->vocab()));
    double prefill = 0;
    while (session.result().phase == KIMI_PHASE_PREFILL) prefill += timed_step(session);
    std::printf("prefill %6u tokens  %8.1f tokens/s\n", options.prompt, options.prompt / prefill);

    // The first steps bring the weights into memory.
    for (int i = 0; i < 2; ++i) timed_step(session);
    std::vector<double> seconds;
    while (seconds.size() < options.generate && session.result().phase == KIMI_PHASE_DECODE)
        seconds.push_back(timed_step(session));
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    const std::uint64_t weights = runner.weights().bytes_per_token(runner.config().top_k);
    const std::uint64_t kv = runner.kv().n_layers * runner.kv().token_bytes() * session.n_tokens();
    const double rate = static_cast<double>(weights + kv) / median / 1e9;
    std::printf("decode  %6zu tokens  %8.1f tokens/s  (median step %.2f ms)\n", seconds.size(),
                1 / median, median * 1e3);
    std::printf("bytes per token       %8.2f MB (weights %.2f, KV %.2f)\n",
                static_cast<double>(weights + kv) / 1e6, static_cast<double>(weights) / 1e6,
                static_cast<double>(kv) / 1e6);
    std::printf("decode reads          %8.2f GB/s = %.0f %% of the read bandwidth\n", rate,
                100 * rate / bandwidth);
}

}  // namespace
}  // namespace kimi::bench

int main(int argc, char **argv) {
    try {
        if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
            std::fputs(kimi::bench::kUsage, stdout);
            return 0;
        }
        kimi::bench::run(kimi::bench::parse(argc, argv));
        return 0;
    } catch (...) {
        std::fprintf(stderr, "kimi-bench: %s\n", kimi::current_error().text.c_str());
        return 1;
    }
}
