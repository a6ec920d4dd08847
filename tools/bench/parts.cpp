// A decode step part by part, beside what the planner's model of a machine says.
#include <cstdio>

#include "base/error.h"
#include "commands.h"
#include "measure.h"
#include "model/dims.h"
#include "placement/planner.h"

namespace kimi::bench {
namespace {

constexpr std::uint32_t kNodes = 8;

// Mean seconds of a step by part.
struct Measured {
    double context = 0, step = 0;
    double draft = 0, tree = 0, verify = 0, accept = 0, compact = 0;
};

Measured measure(const std::shared_ptr<Engine> &engine, const Options &options,
                 std::uint32_t budget) {
    Session session(engine, greedy(budget));
    session.append(random_tokens(options.prompt > 0 ? options.prompt : 512, engine->vocab()));
    prefill(session);
    for (int i = 0; i < 2; ++i) timed_step(session);
    const SessionStats before = session.stats();
    const std::uint64_t begin = session.n_tokens();
    Measured out;
    double n = 0;
    for (; n < options.generate && session.result().phase == KIMI_PHASE_DECODE; ++n)
        out.step += timed_step(session);
    if (n == 0) fail(KIMI_TOO_LONG, "the context limit leaves no step to measure");
    const SessionStats &s = session.stats();
    out.context = static_cast<double>(begin + session.n_tokens()) / 2;
    out.step /= n;
    out.draft = (s.draft - before.draft) / n;
    out.tree = (s.tree - before.tree) / n;
    out.verify = (s.verify - before.verify) / n;
    out.accept = (s.accept - before.accept) / n;
    out.compact = (s.compact - before.compact) / n;
    return out;
}

void print(const char *part, double seconds) {
    std::printf("  %-28s %12.3f\n", part, seconds * 1e3);
}
void print(const char *part, double seconds, double practical_ms, double ideal_ms) {
    std::printf("  %-28s %12.3f %12.3f %12.3f\n", part, seconds * 1e3, practical_ms, ideal_ms);
}

}  // namespace

void run_parts(const Options &options) {
    if (options.machine.empty()) fail(KIMI_INVALID_ARGUMENT, "parts needs --machine FILE");
    const Deployment deployment = read_deployment(options.deployment);
    PlanRequest request;
    request.dims = read_model_dims(deployment.checkpoint, deployment.drafter);
    request.machine = read_machine(options.machine);
    request.limits.tree_rows = kNodes + 1;
    const CostModel model =
        cost_model(request, placement_of(deployment, request.dims), kv_format(deployment.kv_type));
    const Rates &practical = request.machine.practical, &ideal = request.machine.ideal;

    const auto engine = open_engine(options.deployment);
    const Measured plain = measure(engine, options, 0);
    std::printf("ms of a step, mean of %u; planned for %s\n\n", options.generate,
                request.machine.name.c_str());
    std::printf("  %-28s %12s %12s %12s\n", "", "measured", "practical", "ideal");
    print("one row", plain.step, model.step(practical, 1, plain.context).total_ms,
          model.step(ideal, 1, plain.context).total_ms);
    print("  verify", plain.verify);
    if (!request.dims.drafter) return;
    const Measured m = measure(engine, options, kNodes);
    const StepCost p = model.drafted_step(practical, kNodes + 1, m.context),
                   i = model.drafted_step(ideal, kNodes + 1, m.context);
    print("draft and 9 rows", m.step, p.total_ms, i.total_ms);
    print("  draft", m.draft, p.draft_ms, i.draft_ms);
    print("  tree", m.tree);
    print("  verify", m.verify, p.total_ms - p.draft_ms, i.total_ms - i.draft_ms);
    print("  accept", m.accept);
    print("  compact", m.compact);
    print("  the rest", m.step - m.draft - m.tree - m.verify - m.accept - m.compact);
}

}  // namespace kimi::bench
