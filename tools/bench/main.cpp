// kimi-bench: how fast a deployment runs, next to what the machine allows.
#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "commands.h"

namespace kimi::bench {
namespace {

constexpr const char *kUsage =
    R"(usage: kimi-bench DEPLOYMENT [--prompt N] [--generate N] [--trace FILE]
       kimi-bench DEPLOYMENT --fill N [--fill N ...]
       kimi-bench speculation DEPLOYMENT [--prompt N] [--generate N]
       kimi-bench parts DEPLOYMENT --machine FILE [--prompt N] [--generate N]
       kimi-bench kv [DEPLOYMENT]

The first form measures the machine's read bandwidth, prefill of N random tokens (default 512)
and decoding of N tokens (default 64) behind them; --trace writes what the devices did, for
Perfetto or kimi-heatmap. --fill measures decode steps and attention alone behind contexts of N
tokens whose KV is filled in, not computed. `speculation` compares drafting with plain decoding:
cost of a step, then tokens per second and acceptance by depth, in contexts from 100 tokens up to N
that the model wrote itself (default 4000). `parts` shows the times of a decode step's parts beside
what kimi-plan says of the machine in FILE. `kv` replays sessions that come and go, and shows how
their pages lie.
)";

std::uint32_t number(const char *text, const std::string &option) {
    std::uint32_t value = 0;
    const char *end = text + std::strlen(text);
    const auto [at, error] = std::from_chars(text, end, value);
    if (at != end || error != std::errc() || value == 0)
        fail(KIMI_INVALID_ARGUMENT, option, ": ", text, " is not a positive number");
    return value;
}

void run(int argc, char **argv) {
    Options options;
    std::string command;
    for (int i = 1; i < argc; ++i) {
        const std::string arg = argv[i];
        if (!arg.starts_with("--")) {
            const bool is_command = command.empty() && options.deployment.empty() &&
                                    (arg == "speculation" || arg == "parts" || arg == "kv");
            (is_command ? command : options.deployment) = arg;
            continue;
        }
        if (i + 1 == argc) fail(KIMI_INVALID_ARGUMENT, arg, " needs a value");
        const char *text = argv[++i];
        if (arg == "--trace") {
            options.trace = text;
            continue;
        }
        if (arg == "--machine") {
            options.machine = text;
            continue;
        }
        const std::uint32_t value = number(text, arg);
        if (arg == "--prompt") {
            options.prompt = value;
        } else if (arg == "--generate") {
            options.generate = value;
        } else if (arg == "--fill") {
            options.fill.push_back(value);
        } else {
            fail(KIMI_INVALID_ARGUMENT, "unknown option ", arg);
        }
    }
    if (command == "kv") return run_kv(options);
    if (options.deployment.empty())
        fail(KIMI_INVALID_ARGUMENT, "no deployment given; see kimi-bench --help");
    if (command == "speculation") return run_speculation(options);
    if (command == "parts") return run_parts(options);
    options.fill.empty() ? run_decode(options) : run_context(options);
}

}  // namespace
}  // namespace kimi::bench

int main(int argc, char **argv) {
    try {
        if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
            std::fputs(kimi::bench::kUsage, stdout);
            return 0;
        }
        kimi::bench::run(argc, argv);
        return 0;
    } catch (...) {
        std::fprintf(stderr, "kimi-bench: %s\n", kimi::current_error().text.c_str());
        return 1;
    }
}
