#include "tools/plan/plan.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "base/mapped_file.h"
#include "default_machine.h"
#include "model/dims.h"
#include "tools/plan/report.h"

namespace kimi::plan {
namespace {

constexpr char kUsage[] =
    R"(usage: kimi-plan DEPLOYMENT [OPTIONS]

Computes from the shapes alone what a model needs on a machine, how long its steps take at least,
and recommends a placement. DEPLOYMENT is a deployment file or a checkpoint folder; of the
checkpoint only config.json and the index are read.

  --machine FILE      default: 8x RTX PRO 6000; see examples/machines
  --context N ...     tokens of context (default 4096 46000 185000, up to the context limit)
  --nodes N           rows of a verify step, the root and its nodes (default 9)
  --overlap F         experts that the rows of a step share: distinct ones, relative to those of
                      independent tokens (default 1)
  --routing FILE      recorded routing, {"expert_counts": [[tokens per expert], ...]}
  --search            list all placements
  --json              print JSON
  --help
)";

struct Options {
    std::string deployment, machine, routing;
    std::vector<std::uint64_t> contexts;
    std::uint32_t rows = 9;
    double overlap = 1;
    bool search = false, json = false;
};

template <typename T>
T number(std::string_view option, std::string_view text, T min, T max) {
    T out{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size() || !(out >= min && out <= max))
        fail(KIMI_INVALID_ARGUMENT, option, " is \"", text, "\", must be a number from ", min,
             " to ", max);
    return out;
}

Options parse(std::span<const char *const> args) {
    Options o;
    const auto value = [&](std::string_view option) {
        if (args.empty()) fail(KIMI_INVALID_ARGUMENT, option, " needs a value");
        const std::string_view text = args[0];
        args = args.subspan(1);
        return text;
    };
    while (!args.empty()) {
        const std::string_view arg = value("");
        if (arg == "--machine") {
            o.machine = value(arg);
        } else if (arg == "--routing") {
            o.routing = value(arg);
        } else if (arg == "--nodes") {
            o.rows = number<std::uint32_t>(arg, value(arg), 1, kMaxTreeNodes + 1);
        } else if (arg == "--overlap") {
            o.overlap = number<double>(arg, value(arg), 0.01, 1);
        } else if (arg == "--context") {
            do o.contexts.push_back(number<std::uint64_t>(arg, value(arg), 1, 1U << 24));
            while (!args.empty() && std::isdigit(static_cast<unsigned char>(args[0][0])));
        } else if (arg == "--search") {
            o.search = true;
        } else if (arg == "--json") {
            o.json = true;
        } else if (arg.starts_with("--") || !o.deployment.empty()) {
            fail(KIMI_INVALID_ARGUMENT, "unknown option ", arg, "; see --help");
        } else {
            o.deployment = arg;
        }
    }
    if (o.deployment.empty()) fail(KIMI_INVALID_ARGUMENT, "no deployment is given; see --help");
    return o;
}

// What is planned for: the deployment's model, the machine and what the options say.
PlanRequest make_request(const Options &o, const Deployment &deployment) {
    PlanRequest r;
    r.dims = read_model_dims(deployment.checkpoint, deployment.drafter);
    r.machine = o.machine.empty() ? parse_machine(kDefaultMachine, "the default machine")
                                  : read_machine(o.machine);
    const std::string &counts = o.routing.empty() ? deployment.placement.expert_counts : o.routing;
    if (!counts.empty()) r.counts = read_expert_counts(counts, r.dims.target);
    const std::uint64_t limit =
        deployment.context_limit > 0
            ? deployment.context_limit
            : read_model_config(deployment.checkpoint + "/config.json").max_position;
    r.contexts = o.contexts;
    if (r.contexts.empty())
        for (const std::uint64_t context : {4096U, 46000U, 185000U})
            if (context < limit || r.contexts.empty())
                r.contexts.push_back(std::min(context, limit));
    for (const std::uint64_t context : r.contexts)
        if (context > limit)
            fail(KIMI_INVALID_ARGUMENT, "--context is ", context, ", the context limit is ", limit);
    r.capacity_tokens = deployment.kv_capacity_tokens > 0 ? deployment.kv_capacity_tokens : limit;
    r.tree_rows = o.rows;
    r.overlap = o.overlap;
    r.limits = {deployment.prefill_chunk, deployment.max_nodes + 1, deployment.draft_sessions,
                deployment.graph_bytes(), limit};
    return r;
}

}  // namespace

std::string run(std::span<const char *const> args) {
    if (std::find(args.begin(), args.end(), std::string_view("--help")) != args.end())
        return kUsage;
    const Options o = parse(args);
    const Deployment deployment = read_deployment(o.deployment);
    const PlanRequest request = make_request(o, deployment);
    std::optional<Placement> placement;
    if (!is_directory(o.deployment)) {
        placement = placement_of(deployment, request.dims);
        if (placement->ranks > request.machine.devices)
            fail(KIMI_INVALID_ARGUMENT, o.deployment, ": field ranks: is ", placement->ranks,
                 ", the machine has ", request.machine.devices, " devices");
    }
    const Report report = make_report(request, placement, kv_format(deployment.kv_type), o.search);
    return o.json ? report.dump(1) + '\n' : to_table(report);
}

}  // namespace kimi::plan
