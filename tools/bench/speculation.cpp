#include <cstdio>

#include "base/error.h"
#include "commands.h"
#include "measure.h"

namespace kimi::bench {
namespace {

struct Mode {
    const char *name;
    std::uint32_t budget;
    bool chain;
};
constexpr Mode kModes[] = {{"plain", 0, false},    {"chain 7", 7, true},
                           {"tree 8", 8, false},   {"tree 16", 16, false},
                           {"tree 63", 63, false}, {"auto", KIMI_AUTO, false}};

// Text that the model itself wrote behind a random prompt: what drafters are made for.
std::vector<std::int32_t> written_text(const std::shared_ptr<Engine> &engine, std::uint32_t n) {
    SessionOptions options = greedy(16);
    options.sampling = {.seed = 7, .temperature = 1, .top_p = 0.95f};
    Session session(engine, options);
    session.append(random_tokens(8, engine->vocab(), 5));
    while (session.n_tokens() < n && session.result().phase != KIMI_PHASE_FINISHED)
        timed_step(session);
    return {session.tokens().begin(), session.tokens().end()};
}

struct Run {
    double seconds = 0;
    std::uint64_t tokens = 0;
    SessionStats stats;
};

Run decode(const std::shared_ptr<Engine> &engine, std::span<const std::int32_t> prompt,
           const Mode &mode, std::uint32_t n) {
    Session session(engine, greedy(mode.budget, mode.chain));
    session.append(prompt);
    prefill(session);
    Run run;
    while (run.tokens < n) {
        run.seconds += timed_step(session);
        run.tokens += session.committed().size();
    }
    run.stats = session.stats();
    return run;
}

void print_pass_costs(const std::shared_ptr<Engine> &engine) {
    const std::vector<std::int32_t> prompt = random_tokens(100, engine->vocab());
    // Plain and 9-row steps in turn, so that both see the same machine.
    Session plain(engine, greedy(0)), drafting(engine, greedy(8));
    plain.append(prompt);
    drafting.append(prompt);
    prefill(plain);
    prefill(drafting);
    std::vector<double> one, nine;
    for (int i = 0; i < 40; ++i) {
        one.push_back(timed_step(plain));
        const double seconds = timed_step(drafting);
        if (drafting.result().draft_nodes == 8) nine.push_back(seconds);
    }
    const SessionStats &s = drafting.stats();
    std::printf("one token %.2f ms; draft and verify of 9 rows %.2f ms = %.2f single steps "
                "(draft %.2f ms, verify %.2f ms)\n",
                median(one) * 1e3, median(nine) * 1e3, median(nine) / median(one),
                s.draft / static_cast<double>(s.steps) * 1e3,
                s.verify / static_cast<double>(s.steps) * 1e3);
    std::fflush(stdout);
}

}  // namespace

void run_speculation(const Options &options) {
    const auto engine = open_engine(options.deployment);
    if (engine->runner().limits().draft.n_heads == 0)
        fail(KIMI_INVALID_ARGUMENT, options.deployment, ": the deployment names no drafter");
    print_pass_costs(engine);
    const std::uint32_t longest = options.prompt > 0 ? options.prompt : 4000;
    const std::vector<std::int32_t> text = written_text(engine, longest);

    std::printf("\n%8s %8s %10s %8s %10s %9s   %s\n", "context", "mode", "tokens/s", "gain",
                "per step", "accepted", "accepted of offered, by depth");
    for (const std::uint32_t context : {100U, 500U, 1000U, 2000U, 4000U}) {
        if (context > text.size()) break;
        double plain = 0;
        for (const Mode &mode : kModes) {
            const Run run = decode(engine, std::span(text).first(context), mode, options.generate);
            const double rate = static_cast<double>(run.tokens) / run.seconds;
            if (mode.budget == 0) plain = rate;
            const SessionStats &s = run.stats;
            std::printf(
                "%8u %8s %10.1f %7.2fx %10.2f %8.0f%%  ", context, mode.name, rate, rate / plain,
                static_cast<double>(s.committed) / static_cast<double>(s.steps),
                s.drafted == 0
                    ? 0.0
                    : 100.0 * static_cast<double>(s.accepted) / static_cast<double>(s.drafted));
            for (std::size_t d = 0; d < s.offered.size() && s.offered[d] > 0; ++d)
                std::printf(" %.2f", static_cast<double>(s.accepted_at[d]) /
                                         static_cast<double>(s.offered[d]));
            std::printf("\n");
            std::fflush(stdout);
        }
    }
}

}  // namespace kimi::bench
